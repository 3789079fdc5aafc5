#ifndef TUTTI_SCHEDULE_STEP_DEPTH_H_
#define TUTTI_SCHEDULE_STEP_DEPTH_H_

#include <vector>

#include "absl/types/span.h"
#include "schedule/group_plan.h"

namespace tutti {

// Returns the depth of each step: the number of transfers that must end one
// after the other before the step ends. This is the step's end time if every
// transfer takes 1, all other steps take 0, and unordered transfers overlap.
// Both halves of a transfer have the same depth, at least 1. Pure.
//
// `completion_order` is as in SymbolicRun. Takes time in proportion to the
// number of steps.
std::vector<int> StepDepths(const GroupPlan& plan,
                            absl::Span<const int> completion_order);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_STEP_DEPTH_H_
