#include "framework/implementation_traits.h"
#include "implementations/hierarchical_reduce.h"
#include "implementations/recursive_halving_doubling_reduce.h"
#include "schedule/algorithm.h"

namespace tutti {
namespace {

// HierarchicalReduce with recursive halving and doubling across tasks: 2
// ceil(log2 T) steps between them.
Schedule Plan(const PlanRequest& request) {
  return PlanHierarchicalReduce(request, PlanRecursiveHalvingDoublingReduce);
}

double CostSeconds(const CostQuery& query) {
  return HierarchicalReduceSeconds(query,
                                   RecursiveHalvingDoublingReduceTraffic);
}

REGISTER_COLLECTIVE(
    HierarchicalHalvingDoublingReduce,
    Scheduled(
        {.traits =
             {.summary =
                  "within tasks, halving and doubling across them: fewest "
                  "bytes between tasks, 2 log2 T steps",
              .collectives = {CollectiveType::kAllReduce},
              .determinism = Determinism::kFixedLayout,
              .cost_seconds = CostSeconds},
         .plan = Plan}));

}  // namespace
}  // namespace tutti
