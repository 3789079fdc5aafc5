#ifndef TUTTI_IMPLEMENTATIONS_PARTS_SHUFFLE_OUTLINE_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_SHUFFLE_OUTLINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tutti/schedule.h"

namespace tutti {

// The outlines of DirectReduceScatter and BruckGather, and of ShuffleReduce,
// which is both: not where the request lists owners. All ranks do the same.
absl::StatusOr<std::unique_ptr<const Outline>> DirectReduceScatterOutline(
    const PlanRequest& request);
absl::StatusOr<std::unique_ptr<const Outline>> BruckGatherOutline(
    const PlanRequest& request);
absl::StatusOr<std::unique_ptr<const Outline>> ShuffleOutline(
    const PlanRequest& request);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_SHUFFLE_OUTLINE_H_
