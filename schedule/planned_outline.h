#ifndef TUTTI_SCHEDULE_PLANNED_OUTLINE_H_
#define TUTTI_SCHEDULE_PLANNED_OUTLINE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "schedule/outline.h"
#include "schedule/plan.h"
#include "schedule/verifier.h"

namespace tutti {

// The outline that an algorithm's plans have, as they are. Takes time and
// memory in proportion to their steps. Errors: as PlanGroup() and
// RunSymbolically(); RESOURCE_EXHAUSTED if there are more than `max_steps`.
absl::StatusOr<std::unique_ptr<const Outline>> PlannedOutline(
    const Algorithm& algorithm, const VerifyCase& request, int64_t max_steps);

// The same by the algorithm's own function, if it has one: whatever the size.
absl::StatusOr<std::unique_ptr<const Outline>> OutlineOf(
    const Algorithm& algorithm, const VerifyCase& request, int64_t max_steps);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_PLANNED_OUTLINE_H_
