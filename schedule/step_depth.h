#ifndef TUTTI_SCHEDULE_STEP_DEPTH_H_
#define TUTTI_SCHEDULE_STEP_DEPTH_H_

#include <vector>

#include "absl/types/span.h"
#include "schedule/group_plan.h"

namespace tutti {

// For each step how many transfers in a row have ended when it has, where
// transfers that nothing orders run at once: when it ends, if every transfer
// takes 1 and nothing else takes any time. Both halves of a transfer have the
// same depth, from 1 on. Pure.
//
// `completion_order` as in SymbolicRun. Takes time in proportion to the number
// of steps.
std::vector<int> StepDepths(const GroupPlan& plan,
                            absl::Span<const int> completion_order);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_STEP_DEPTH_H_
