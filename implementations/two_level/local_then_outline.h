#ifndef TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_OUTLINE_H_
#define TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_OUTLINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tutti/schedule.h"

namespace tutti {

// Outline of PlanLocalThen() (local_then_plan.h), made from the outline of the
// schedule between tasks: its `outline` function, or its plan.
//
// Errors: UNIMPLEMENTED if some tasks have one rank and others have more,
// because they begin the schedule in different rounds; UNIMPLEMENTED if tasks
// of different sizes need scratch memory for it; RESOURCE_EXHAUSTED if the
// schedule has no outline and is too large to plan.
absl::StatusOr<std::unique_ptr<const Outline>> LocalThenOutline(
    absl::string_view between, const PlanRequest& request);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_OUTLINE_H_
