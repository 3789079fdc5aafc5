#ifndef TUTTI_IMPLEMENTATIONS_PARTS_HALVING_OUTLINE_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_HALVING_OUTLINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tutti/schedule.h"

namespace tutti {

// The outline of blocks that all go up their halving trees (halving_tree.h).
absl::StatusOr<std::unique_ptr<const Outline>> HalvingOutline(
    const PlanRequest& request);

// The same where they go down again.
absl::StatusOr<std::unique_ptr<const Outline>> HalvingDoublingOutline(
    const PlanRequest& request);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_HALVING_OUTLINE_H_
