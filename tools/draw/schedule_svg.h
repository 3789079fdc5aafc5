#ifndef TUTTI_TOOLS_DRAW_SCHEDULE_SVG_H_
#define TUTTI_TOOLS_DRAW_SCHEDULE_SVG_H_

#include <string>

#include "absl/types/span.h"
#include "schedule/group_plan.h"
#include "tutti/params.h"

namespace tutti {

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

#endif  // TUTTI_TOOLS_DRAW_SCHEDULE_SVG_H_
