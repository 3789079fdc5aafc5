#ifndef TUTTI_IMPLEMENTATIONS_PARTS_SHUFFLE_OUTLINE_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_SHUFFLE_OUTLINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tutti/schedule.h"

namespace tutti {

// Outlines of DirectReduceScatter, of BruckGather, and of ShuffleReduce, which
// does both. Not for requests that list owners. All ranks do the same.
absl::StatusOr<std::unique_ptr<const Outline>> DirectReduceScatterOutline(
    const PlanRequest& request);
absl::StatusOr<std::unique_ptr<const Outline>> BruckGatherOutline(
    const PlanRequest& request);
absl::StatusOr<std::unique_ptr<const Outline>> ShuffleOutline(
    const PlanRequest& request);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_SHUFFLE_OUTLINE_H_
