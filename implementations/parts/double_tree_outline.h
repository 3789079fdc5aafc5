#ifndef TUTTI_IMPLEMENTATIONS_PARTS_DOUBLE_TREE_OUTLINE_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_DOUBLE_TREE_OUTLINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tutti/schedule.h"

namespace tutti {

// The outline of sums that go up double trees and down again, a tree of each
// pair for every subdivision (double_tree.h, pipelines.h).
absl::StatusOr<std::unique_ptr<const Outline>> DoubleTreeOutline(
    const PlanRequest& request);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_DOUBLE_TREE_OUTLINE_H_
