#ifndef TUTTI_SCHEDULE_SIMULATE_PLANNED_OUTLINE_H_
#define TUTTI_SCHEDULE_SIMULATE_PLANNED_OUTLINE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schedule/proof/verifier.h"
#include "tutti/schedule.h"

namespace tutti {

// Plans of so many steps take some seconds, and about 1 GB.
inline constexpr int64_t kMaxPlannedSteps = 6'000'000;

// The outline that an algorithm's plans have, as they are. Takes time and
// memory in proportion to their steps. Errors: as PlanGroup() and
// RunSymbolically(); RESOURCE_EXHAUSTED if there are more than `max_steps`.
absl::StatusOr<std::unique_ptr<const Outline>> PlannedOutline(
    const Algorithm& algorithm, const VerifyCase& request, int64_t max_steps);

// The same by the algorithm's own function, if it has one for the request:
// whatever the size. Where it has none, and there are too many steps, the error
// also says why it has none.
absl::StatusOr<std::unique_ptr<const Outline>> OutlineOf(
    const Algorithm& algorithm, const VerifyCase& request, int64_t max_steps);

// OK if the algorithm's own function says what its plans do and when ranks have
// their results, and every rank does what it says of the period, of a ring, of
// how many are busy and of how many transfers there are; where the function has
// none, there is nothing to compare. Errors: as the functions above;
// INVALID_ARGUMENT naming the first round that differs.
absl::Status CheckOutline(const Algorithm& algorithm,
                          const VerifyCase& request);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_SIMULATE_PLANNED_OUTLINE_H_
