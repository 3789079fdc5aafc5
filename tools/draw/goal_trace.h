#ifndef TUTTI_TOOLS_DRAW_GOAL_TRACE_H_
#define TUTTI_TOOLS_DRAW_GOAL_TRACE_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "schedule/group_plan.h"

namespace tutti {

// The plan in GOAL, the language of LogGOPSim's traces (T. Hoefler, C. Siebert,
// A. Lumsdaine, "Group Operation Assembly Language - A Flexible Way to Express
// Collective Communication", ICPP 2009). The steps of a rank are l1, l2, ... in
// the order of the plan, and require the steps that they wait for. "calc 0",
// which takes no time, stands for reductions, copies, transfers without bytes,
// and a rank without steps. Pure.
//
// `bytes` holds the bytes of each step (TransferBytes).
std::string GoalTrace(const GroupPlan& plan, absl::Span<const int64_t> bytes);

}  // namespace tutti

#endif  // TUTTI_TOOLS_DRAW_GOAL_TRACE_H_
