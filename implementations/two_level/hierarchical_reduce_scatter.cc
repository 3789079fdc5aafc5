#include <vector>

#include "implementations/recursive_halving_reduce_scatter.h"
#include "implementations/scatter.h"
#include "implementations/tree_reduce.h"
#include "implementations/two_level/hierarchy.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// First, the devices of each task reduce-scatter their inputs: device i gets
// the sums for the devices i of all tasks. Then the devices i of all tasks
// reduce-scatter these sums. With two tasks of two devices:
//
//   rank            0        1        2        3
//   starts with     0 1 2 3  0 1 2 3  0 1 2 3  0 1 2 3
//   in each task    0   2      1   3  0   2      1   3
//   across tasks    0          1          2          3
//
// Runs recursive halving on both levels. With T tasks of d devices: ceil(log2
// d) steps inside, and ceil(log2 T) steps between tasks, where a device sends T
// - 1 blocks, the least possible. If n is a power of two and ranks are
// consecutive from task to task, this is RecursiveHalvingReduceScatter.
//
// If tasks have different numbers of devices, the first device of each task
// leads. Trees sum up each block at the leaders, then at the leader of the
// block's task. That leader sends it to its owner. This sends as much between
// tasks, and the whole input inside. (Levels: as for hierarchical_reduce.h.)
using enum CollectiveType;

Schedule PlanEven(const PlanRequest& request) {
  const auto& tasks = request.layout.tasks();
  HierarchicalPlanner planner(request, /*num_chunks=*/request.layout.size());
  const Hierarchy& hierarchy = planner.hierarchy();
  const int num_devices = hierarchy.num_devices();
  const int num_tasks = hierarchy.num_tasks();
  if (num_devices > 1) {
    for (const std::vector<int>& blocks : tasks) {
      planner.AddInTask({.plan = PlanRecursiveHalvingReduceScatter,
                         .type = kReduceScatter,
                         .num_tags = num_devices,
                         .chunks = blocks,
                         .finishes = num_tasks == 1});
    }
  }
  if (num_tasks > 1 || num_devices == 1) {
    const int device = hierarchy.device();
    planner.AddAcrossTasks(device, {.plan = PlanRecursiveHalvingReduceScatter,
                                    .type = kReduceScatter,
                                    .num_tags = num_tasks,
                                    .chunks = hierarchy.Column(device),
                                    .finishes = true});
  }
  return planner.Build();
}

Schedule PlanWithLeaders(const PlanRequest& request) {
  const GroupLayout& layout = request.layout;
  HierarchicalPlanner planner(request, /*num_chunks=*/layout.size());
  for (int block = 0; block < layout.size(); ++block) {
    planner.AddInTask({.plan = PlanTreeReduce,
                       .type = kReduce,
                       .num_tags = 2,
                       .chunks = {block}});
  }
  for (int block = 0; block < layout.size(); ++block) {
    planner.AddAcrossTasks(/*device=*/0, {.plan = PlanTreeReduce,
                                          .type = kReduce,
                                          .root = layout.task_of(block),
                                          .num_tags = 2,
                                          .chunks = {block},
                                          .finishes = true});
  }
  planner.AddInTask({.plan = PlanScatter,
                     .type = kScatter,
                     .num_tags = 1,
                     .chunks = planner.hierarchy().devices()});
  return planner.Build();
}

Schedule Plan(const PlanRequest& request) {
  return IsEven(request.layout) ? PlanEven(request) : PlanWithLeaders(request);
}

double CostSeconds(const CostQuery& query) {
  const int size = query.layout.size();
  const int num_tasks = query.layout.num_tasks();
  Traffic traffic;
  if (IsEven(query.layout)) {
    constexpr auto kPart = RecursiveHalvingReduceScatterTraffic;
    traffic.Add(TrafficInTask(query, kPart, kReduceScatter).Times(num_tasks));
    traffic.Add(
        TrafficAcrossTasks(query, size / num_tasks, kPart, kReduceScatter));
  } else {
    traffic.Add(TrafficInTask(query, TreeReduceTraffic, kReduce).Times(size));
    traffic.Add(
        TrafficAcrossTasks(query, /*num_devices=*/1, TreeReduceTraffic, kReduce)
            .Times(size));
    traffic.Add(TrafficInTask(query, ScatterTraffic, kScatter));
  }
  return traffic.SecondsInPieces(query.model, BlockBytes(query), num_tasks);
}

REGISTER_COLLECTIVE(
    HierarchicalReduceScatter,
    Scheduled({.traits = {.summary = "within tasks, then across them: fewest "
                                     "bytes between tasks, log2 n steps",
                          .collectives = {kReduceScatter},
                          .supports_uneven = true,
                          .determinism = Determinism::kFixedLayout,
                          .cost_seconds = CostSeconds},
               .plan = Plan}));

}  // namespace
}  // namespace tutti
