#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "implementations/two_level/hierarchical_levels.h"
#include "implementations/two_level/hierarchical_outline.h"
#include "implementations/two_level/hierarchical_reduce.h"
#include "implementations/two_level/local_then.h"
#include "implementations/two_level/local_then_outline.h"
#include "implementations/two_level/local_then_plan.h"
#include "schedule/engine/schedule_between_tasks.h"
#include "tutti/collective.h"
#include "tutti/schedule.h"

namespace tutti::two_levels {
namespace {

// Returns true if the level inside is one pass over memory.
bool IsPass(const ReduceLevels& levels) {
  return levels.inside == "LocalReduce";
}

}  // namespace

absl::Status CheckParts(const ReduceLevels& levels) {
  return IsPass(levels) ? FindInterTaskLevel(levels.between).status()
                        : CheckLevels(levels);
}

double Seconds(const CostQuery& query, const ReduceLevels& levels) {
  return IsPass(levels)
             ? LocalThenSeconds(levels.between, kLocalThenChunkBytes, query)
             : HierarchicalReduceSeconds(query, levels);
}

Schedule Plan(const PlanRequest& request, const ReduceLevels& levels) {
  return IsPass(levels) ? PlanLocalThen(levels.between, request)
                        : PlanHierarchicalReduce(request, levels);
}

std::vector<int> Subdivide(const SubdivisionRequest& request,
                           const ReduceLevels& levels) {
  return SubdivideLocalThen(levels.between, kLocalThenChunkBytes, request);
}

absl::StatusOr<std::unique_ptr<const Outline>> MakeOutline(
    const PlanRequest& request, const ReduceLevels& levels) {
  return IsPass(levels) ? LocalThenOutline(levels.between, request)
                        : HierarchicalReduceOutline(request, levels);
}

std::shared_ptr<const CollectiveFactory> MakeFactory(const ReduceLevels& levels,
                                                     Algorithm functions) {
  if (IsPass(levels)) {
    return MakeLocalThenFactory(std::string(levels.between),
                                kLocalThenChunkBytes, std::move(functions));
  }
  ImplementationTraits& traits = functions.traits;
  traits.summary = absl::StrCat(levels.inside, " within tasks, ",
                                levels.between, " between them");
  traits.collectives = {CollectiveType::kAllReduce};
  traits.determinism = Determinism::kFixedLayout;
  functions.subdivide = nullptr;  // Subdivisions belong to the parts.
  return Scheduled(std::move(functions));
}

}  // namespace tutti::two_levels
