#include "implementations/plan_testing.h"

#include <algorithm>
#include <string>
#include <vector>

#include "schedule/group_plan.h"
#include "schedule/proof/expression.h"
#include "schedule/proof/expression_testing.h"
#include "schedule/proof/symbolic.h"
#include "schedule/step_depth.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {
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

int ChunksOf(const Schedule& schedule, StepKind kind) {
  int chunks = 0;
  for (const Step& step : StepsOf(schedule, kind)) {
    chunks += (Writes(kind) ? step.into : step.left).num_chunks;
  }
  return chunks;
}

int TransfersInARow(absl::string_view name, const VerifyCase& request) {
  const GroupPlan plan = *PlanGroup(AlgorithmNamed(name), request);
  const SymbolicRun run = *RunSymbolically(plan);
  const std::vector<int> depths = StepDepths(plan, run.completion_order);
  return depths.empty() ? 0 : *std::max_element(depths.begin(), depths.end());
}

std::string OutputOf(absl::string_view name, const VerifyCase& request,
                     int rank, int chunk) {
  const auto run = Symbolically(AlgorithmNamed(name), request);
  return Evaluator<WrittenExpression>(run->expressions,
                                      {})(run->outputs[rank][chunk]);
}

}  // namespace tutti
