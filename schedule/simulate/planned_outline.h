#ifndef TUTTI_SCHEDULE_SIMULATE_PLANNED_OUTLINE_H_
#define TUTTI_SCHEDULE_SIMULATE_PLANNED_OUTLINE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "schedule/proof/verifier.h"
#include "tutti/schedule.h"

namespace tutti {

// Plans with this number of steps take some seconds, and about 1 GB.
inline constexpr int64_t kMaxPlannedSteps = 6'000'000;

// Makes the outline of an algorithm from its plans. Takes time and memory in
// proportion to their steps. Errors: as PlanGroup() and RunSymbolically();
// RESOURCE_EXHAUSTED if there are more than `max_steps` steps.
absl::StatusOr<std::unique_ptr<const Outline>> PlannedOutline(
    const Algorithm& algorithm, const VerifyCase& request, int64_t max_steps);

// Makes the outline by the algorithm's `outline` function, if it has one for
// the request, at any size. Else calls PlannedOutline(). If there are too many
// steps, the error also names the reason why the function made none.
absl::StatusOr<std::unique_ptr<const Outline>> OutlineOf(
    const Algorithm& algorithm, const VerifyCase& request, int64_t max_steps);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_SIMULATE_PLANNED_OUTLINE_H_
