#include "framework/implementation_traits.h"
#include "implementations/hierarchical_reduce.h"
#include "implementations/ring_reduce.h"
#include "schedule/algorithm.h"

namespace tutti {
namespace {

// HierarchicalReduce with a ring through the tasks: 2 (T - 1) steps between
// them, in which every device sends to that of the next task only.
Schedule Plan(const PlanRequest& request) {
  return PlanHierarchicalReduce(request, PlanRingReduce);
}

double CostSeconds(const CostQuery& query) {
  return HierarchicalReduceSeconds(query, RingReduceTraffic);
}

REGISTER_COLLECTIVE(
    HierarchicalRingReduce,
    Scheduled(
        {.traits =
             {.summary =
                  "within tasks, a ring across them: fewest bytes between "
                  "tasks, 2 (T - 1) steps",
              .collectives = {CollectiveType::kAllReduce},
              .determinism = Determinism::kFixedLayout,
              .cost_seconds = CostSeconds},
         .plan = Plan}));

}  // namespace
}  // namespace tutti
