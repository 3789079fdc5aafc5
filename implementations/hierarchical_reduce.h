#ifndef TUTTI_IMPLEMENTATIONS_HIERARCHICAL_REDUCE_H_
#define TUTTI_IMPLEMENTATIONS_HIERARCHICAL_REDUCE_H_

#include <memory>

#include "framework/collective_type.h"
#include "framework/implementation_traits.h"
#include "framework/registry.h"
#include "implementations/hierarchy.h"
#include "schedule/algorithm.h"
#include "schedule/plan.h"
#include "schedule/schedule.h"

namespace tutti {

// An all-reduce on both levels of a machine: inside tasks, where links are
// fast, and between tasks, where they are slow. With two tasks of two devices:
//
//   reduce-scatter     all-reduce        all-gather
//   in each task       across tasks      in each task
//
//   0 --+-- 1          0       1         0 --+-- 1
//                      |       |
//   2 --+-- 3          2       3         2 --+-- 3
//
// First the d devices of each task sum up its contributions, each those of one
// block in d. Then device i of all T tasks, for every i, all-reduce block i:
// the only messages between tasks. Then the devices of each task bring each
// other their blocks. A device sends 2 (T - 1) / T of its block to other tasks,
// so a task sends 2 (T - 1) / T of the buffer in all, the least possible. Each
// block is cut into T chunks, and every stage takes up a chunk as soon as the
// one before has done with it.
//
// Where tasks have different numbers of devices, the first device of each
// leads: a tree sums up the buffer at the leader, leaders all-reduce, and a
// tree brings the result to the others. That is as much between tasks; inside,
// the whole buffer moves up and down.
//
// (Reduce-scatter and all-gather around an all-reduce: M. Cho, U. Finkler, D.
// Kung, H. Hunter, "BlueConnect: Decomposing all-reduce for deep learning on
// heterogeneous network hierarchy", MLSys 2019. Leaders: T. Kielmann et al.,
// "MagPIe: MPI's collective communication operations for clustered wide area
// systems", PPoPP 1999.)
//
// What is done on each level:
struct ReduceLevels {
  // A plan and what it takes, in blocks of one in as many as ranks.
  struct Part {
    Schedule (*plan)(const PlanRequest& request);
    PartTraffic traffic;
  };

  // A reduce-scatter among the d devices of a task, in at most d tags. Not used
  // where tasks have different numbers of devices.
  Part inside;

  // An all-reduce in T chunks, among T tasks of one device each, in at most 2 T
  // tags.
  Part across;
};

// Where there is one level only, nothing is done on the other one.
Schedule PlanHierarchicalReduce(const PlanRequest& request,
                                const ReduceLevels& levels);

double HierarchicalReduceSeconds(const CostQuery& query,
                                 const ReduceLevels& levels);

// Makes a collective of any two parts, in one line:
//   constexpr ReduceLevels kLevels = {.inside = ..., .across = ...};
//   REGISTER_COLLECTIVE(ThisThenThat, HierarchicalReduce<kLevels>("summary"));
template <const ReduceLevels& kLevels>
std::shared_ptr<const CollectiveFactory> HierarchicalReduce(
    const char* summary) {
  return Scheduled({.traits = {.summary = summary,
                               .collectives = {CollectiveType::kAllReduce},
                               .determinism = Determinism::kFixedLayout,
                               .cost_seconds =
                                   [](const CostQuery& query) {
                                     return HierarchicalReduceSeconds(query,
                                                                      kLevels);
                                   }},
                    .plan = [](const PlanRequest& request) {
                      return PlanHierarchicalReduce(request, kLevels);
                    }});
}

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_HIERARCHICAL_REDUCE_H_
