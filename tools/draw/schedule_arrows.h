#ifndef TUTTI_TOOLS_DRAW_SCHEDULE_ARROWS_H_
#define TUTTI_TOOLS_DRAW_SCHEDULE_ARROWS_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "schedule/group_plan.h"

namespace tutti {

// All that one rank sends to another at one depth (schedule/step_depth.h), as
// an arrow in a picture whose columns are ranks.
struct Arrow {
  int depth = 0;
  int line = 0;  // Of its depth, from 0 on. Arrows of one line do not overlap.
  int from = 0;
  int to = 0;
  std::vector<int> sends;  // Steps of the plan, in order.
};

// By depth and line, on as few lines as hold them. Pure.
std::vector<Arrow> ArrowsOf(const GroupPlan& plan,
                            absl::Span<const int> depths);

// The chunks that go along, each once: "0-3,7".
std::string ChunksOf(const GroupPlan& plan, const Arrow& arrow);

}  // namespace tutti

#endif  // TUTTI_TOOLS_DRAW_SCHEDULE_ARROWS_H_
