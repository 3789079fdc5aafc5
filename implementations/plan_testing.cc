#include "implementations/plan_testing.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/registry.h"
#include "schedule/algorithm.h"
#include "schedule/expression.h"
#include "schedule/group_plan.h"
#include "schedule/symbolic.h"

namespace tutti {
namespace {

struct Written {
  std::string Input(int rank, int chunk) {
    return absl::StrCat(rank, ".", chunk);
  }
  std::string Reduce(const std::string& left, const std::string& right) {
    return absl::StrCat("(", left, "+", right, ")");
  }
  std::string Finish(const std::string& operand) {
    return absl::StrCat("f", operand);
  }
};

}  // namespace

const Algorithm& AlgorithmNamed(absl::string_view name) {
  // Registered factories live as long as the program.
  return *AlgorithmOf(**CollectiveRegistry::Global().Find(name));
}

std::vector<Schedule> PlansOf(absl::string_view name,
                              const VerifyCase& request) {
  return *PlanAll(AlgorithmNamed(name), request);
}

std::vector<Step> StepsOf(const Schedule& schedule, StepKind kind) {
  std::vector<Step> steps;
  for (const Lane& lane : schedule.lanes) {
    std::copy_if(lane.begin(), lane.end(), std::back_inserter(steps),
                 [kind](const Step& step) { return step.kind == kind; });
  }
  return steps;
}

int TransfersInARow(absl::string_view name, const VerifyCase& request) {
  const GroupPlan plan = *PlanGroup(AlgorithmNamed(name), request);
  std::vector<int> end(plan.num_steps());
  const auto start = [&](int step) {
    const bool is_first = step == plan.lane(plan.lane_of(step)).first_step;
    const int before = is_first ? 0 : end[step - 1];
    return std::max(before, plan.after(step) < 0 ? 0 : end[plan.after(step)]);
  };
  const SymbolicRun run = *RunSymbolically(plan);
  for (int step : run.completion_order) {
    const int partner = plan.partner(step);
    end[step] =
        partner < 0 ? start(step) : std::max(start(step), start(partner)) + 1;
  }
  return end.empty() ? 0 : *std::max_element(end.begin(), end.end());
}

std::string OutputOf(absl::string_view name, const VerifyCase& request,
                     int rank, int chunk) {
  const auto run = Symbolically(AlgorithmNamed(name), request);
  return Evaluator<Written>(run->expressions, {})(run->outputs[rank][chunk]);
}

}  // namespace tutti
