#ifndef TUTTI_TOOLS_DRAW_SCHEDULE_ARROWS_H_
#define TUTTI_TOOLS_DRAW_SCHEDULE_ARROWS_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "schedule/group_plan.h"

namespace tutti {

// All sends of one rank to another at one depth (schedule/step_depth.h), drawn
// as one arrow in a picture whose columns are ranks.
struct Arrow {
  int depth = 0;
  int line = 0;  // Within its depth. Arrows of one line do not overlap.
  int from = 0;
  int to = 0;
  std::vector<int> sends;  // Steps of the plan, in order.
};

// Arrows ordered by depth and line, on as few lines as possible. Pure.
std::vector<Arrow> ArrowsOf(const GroupPlan& plan,
                            absl::Span<const int> depths);

// Chunks that the arrow carries, each once: "0-3,7".
std::string ChunksOf(const GroupPlan& plan, const Arrow& arrow);

}  // namespace tutti

#endif  // TUTTI_TOOLS_DRAW_SCHEDULE_ARROWS_H_
