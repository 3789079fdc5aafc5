#ifndef TUTTI_TOOLS_DRAW_SCHEDULE_FILES_H_
#define TUTTI_TOOLS_DRAW_SCHEDULE_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "schedule/group_plan.h"
#include "tutti/params.h"

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

// Input of a picture. The plan is for the ranks of the layout.
struct SchedulePicture {
  std::string title;
  std::string note;  // Below everything; empty: none.
  const GroupLayout& layout;
  const GroupPlan& plan;
  absl::Span<const int> depths;  // Result of StepDepths().
};

// Draws the picture as a self-contained SVG file without scripts, in colours
// for light and dark pages. Columns are ranks, under a line for each task. Time
// goes down, one band for each depth. An arrow shows all sends of one rank to
// another in the band: their chunks stand above it, their steps in its tooltip.
// A dot shows reductions of a rank after its transfers of that band; a ring
// shows copies. Pure.
std::string ScheduleSvg(const SchedulePicture& picture);

}  // namespace tutti

#endif  // TUTTI_TOOLS_DRAW_SCHEDULE_FILES_H_
