#ifndef TUTTI_IMPLEMENTATIONS_HIERARCHICAL_H_
#define TUTTI_IMPLEMENTATIONS_HIERARCHICAL_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/implementation_traits.h"
#include "framework/registry.h"
#include "implementations/implementation_name.h"
#include "implementations/reduce_levels.h"
#include "schedule/outline.h"
#include "schedule/plan.h"
#include "schedule/schedule.h"

namespace tutti {

// Functions of an all-reduce on two levels, as an Algorithm has them, and its
// factory. For Hierarchical(), which knows the levels.
namespace two_levels {

absl::Status CheckParts(const ReduceLevels& levels);
double Seconds(const CostQuery& query, const ReduceLevels& levels);
Schedule Plan(const PlanRequest& request, const ReduceLevels& levels);
std::vector<int> Subdivide(const SubdivisionRequest& request,
                           const ReduceLevels& levels);
absl::StatusOr<std::unique_ptr<const Outline>> MakeOutline(
    const PlanRequest& request, const ReduceLevels& levels);

// `functions` are the above, for these levels.
std::shared_ptr<const CollectiveFactory> MakeFactory(const ReduceLevels& levels,
                                                     Algorithm functions);

}  // namespace two_levels

// An all-reduce on both levels of a machine, inside tasks and between them, of
// any two registered reductions that are schedules of one level and fit
// (CheckFitsAsPart()):
//   REGISTER_COLLECTIVE(
//       ShuffleThenRing, Hierarchical<"DirectReduceScatter", "RingReduce">());
//   REGISTER_COLLECTIVE(
//       LocalThenRing, Hierarchical<"LocalReduce", "RingReduce">());
//
// `inside` is a schedule that reduce-scatters, reduces or all-reduces, and the
// whole then a schedule, or LocalReduce, which stands for one pass over memory
// in each process. `between` is a schedule that all-reduces.
//
// The program links both: else it is ruled out with the reason, and calls that
// name it end with NOT_FOUND.
template <ImplementationName inside, ImplementationName between>
std::shared_ptr<const CollectiveFactory> Hierarchical() {
  static constexpr ReduceLevels kLevels = {.inside = inside.text,
                                           .between = between.text};
  return two_levels::MakeFactory(
      kLevels,
      {.traits = {.check_parts = [] { return two_levels::CheckParts(kLevels); },
                  .cost_seconds =
                      [](const CostQuery& query) {
                        return two_levels::Seconds(query, kLevels);
                      }},
       .plan =
           [](const PlanRequest& request) {
             return two_levels::Plan(request, kLevels);
           },
       .subdivide =
           [](const SubdivisionRequest& request) {
             return two_levels::Subdivide(request, kLevels);
           },
       .outline =
           [](const PlanRequest& request) {
             return two_levels::MakeOutline(request, kLevels);
           }});
}

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_HIERARCHICAL_H_
