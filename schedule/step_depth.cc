#include "schedule/step_depth.h"

#include <algorithm>

namespace tutti {

std::vector<int> StepDepths(const GroupPlan& plan,
                            absl::Span<const int> completion_order) {
  std::vector<int> depths(plan.num_steps());
  const auto start = [&](int step) {
    const bool is_first = step == plan.lane(plan.lane_of(step)).first_step;
    const int before = is_first ? 0 : depths[step - 1];
    return std::max(before,
                    plan.after(step) < 0 ? 0 : depths[plan.after(step)]);
  };
  for (int step : completion_order) {
    const int partner = plan.partner(step);
    depths[step] =
        partner < 0 ? start(step) : std::max(start(step), start(partner)) + 1;
  }
  return depths;
}

}  // namespace tutti
