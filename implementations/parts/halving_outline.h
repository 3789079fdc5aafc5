#ifndef TUTTI_IMPLEMENTATIONS_PARTS_HALVING_OUTLINE_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_HALVING_OUTLINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tutti/schedule.h"

namespace tutti {

// Outline of blocks that are halved up to their owners (halving.h).
absl::StatusOr<std::unique_ptr<const Outline>> HalvingOutline(
    const PlanRequest& request);

// Outline of blocks that go up to their owners and down again.
absl::StatusOr<std::unique_ptr<const Outline>> HalvingDoublingOutline(
    const PlanRequest& request);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_HALVING_OUTLINE_H_
