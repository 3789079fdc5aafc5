#ifndef TUTTI_TOOLS_DRAW_SCHEDULE_SVG_H_
#define TUTTI_TOOLS_DRAW_SCHEDULE_SVG_H_

#include <string>

#include "absl/types/span.h"
#include "schedule/group_plan.h"
#include "tutti/params.h"

namespace tutti {

// What a picture is of. The plan is for the ranks of the layout.
struct SchedulePicture {
  std::string title;
  std::string note;  // Below all; empty: none.
  const GroupLayout& layout;
  const GroupPlan& plan;
  absl::Span<const int> depths;  // StepDepths().
};

// The picture, as a self-contained SVG file without scripts, in colours for
// light and dark pages. Columns are ranks, under a line for each task; time
// goes down, one band for each depth. An arrow is all that one rank sends to
// another in that band, with its chunks above it, and the steps in its tooltip;
// a dot is reductions of a rank after its transfers of that band, a ring is
// copies. Pure.
std::string ScheduleSvg(const SchedulePicture& picture);

}  // namespace tutti

#endif  // TUTTI_TOOLS_DRAW_SCHEDULE_SVG_H_
