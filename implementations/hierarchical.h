#ifndef TUTTI_IMPLEMENTATIONS_HIERARCHICAL_H_
#define TUTTI_IMPLEMENTATIONS_HIERARCHICAL_H_

#include <memory>

#include "absl/strings/str_cat.h"
#include "framework/collective_type.h"
#include "framework/determinism.h"
#include "framework/implementation_traits.h"
#include "framework/registry.h"
#include "implementations/hierarchical_outline.h"
#include "implementations/hierarchical_reduce.h"
#include "implementations/implementation_name.h"
#include "implementations/local_then.h"
#include "schedule/algorithm.h"
#include "schedule/plan.h"

namespace tutti {

// An all-reduce on both levels of a machine, inside tasks and between them, of
// any two registered reductions that are schedules of one level and fit
// (CheckFitsAsPart()):
//   REGISTER_COLLECTIVE(
//       ShuffleThenRing, Hierarchical<"DirectReduceScatter", "RingReduce">());
//   REGISTER_COLLECTIVE(
//       LocalThenRing, Hierarchical<"LocalReduce", "RingReduce">());
//
// `inside` is a schedule that reduce-scatters, reduces or all-reduces, and the
// whole then a schedule (hierarchical_reduce.h), or LocalReduce, which stands
// for one pass over memory in each process (local_then.h). `between` is a
// schedule that all-reduces.
//
// The program links both: else it is ruled out with the reason, and calls that
// name it end with NOT_FOUND.
template <ImplementationName inside, ImplementationName between>
std::shared_ptr<const CollectiveFactory> Hierarchical() {
  if constexpr (inside.view() == "LocalReduce") {
    return LocalThenFactory<between>();
  } else {
    static constexpr ReduceLevels kLevels = {.inside = inside.text,
                                             .between = between.text};
    return Scheduled(
        {.traits = {.summary = absl::StrCat(inside.view(), " within tasks, ",
                                            between.view(), " between them"),
                    .collectives = {CollectiveType::kAllReduce},
                    .check_parts = [] { return CheckLevels(kLevels); },
                    .determinism = Determinism::kFixedLayout,
                    .cost_seconds =
                        [](const CostQuery& query) {
                          return HierarchicalReduceSeconds(query, kLevels);
                        }},
         .plan =
             [](const PlanRequest& request) {
               return PlanHierarchicalReduce(request, kLevels);
             },
         .outline =
             [](const PlanRequest& request) {
               return HierarchicalReduceOutline(request, kLevels);
             }});
  }
}

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_HIERARCHICAL_H_
