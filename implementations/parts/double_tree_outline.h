#ifndef TUTTI_IMPLEMENTATIONS_PARTS_DOUBLE_TREE_OUTLINE_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_DOUBLE_TREE_OUTLINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tutti/schedule.h"

namespace tutti {

// Outline of sums that go up double trees and results that go down. Each
// subdivision has a pair of trees (double_tree.h, pipelines.h).
absl::StatusOr<std::unique_ptr<const Outline>> DoubleTreeOutline(
    const PlanRequest& request);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_DOUBLE_TREE_OUTLINE_H_
