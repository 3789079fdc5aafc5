#include <vector>

#include "implementations/bruck_gather.h"
#include "implementations/two_level/hierarchical_tree_broadcast.h"
#include "implementations/two_level/hierarchy.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// First, for every i, the devices i of all tasks all-gather. Then the devices
// of each task send each other the received blocks. With two tasks of two
// devices:
//
//   rank            0        1        2        3
//   starts with     0          1          2          3
//   across tasks    0   2      1   3  0   2      1   3
//   in each task    0 1 2 3  0 1 2 3  0 1 2 3  0 1 2 3
//
// Runs Bruck's algorithm on both levels. With T tasks of d devices: ceil(log2
// T) steps between tasks, where a device sends T - 1 blocks, the least
// possible, and ceil(log2 d) steps inside.
//
// If tasks have different numbers of devices, the first device of each task
// leads. The devices of a task all-gather. Leaders broadcast the blocks of
// their task to each other, and the blocks of other tasks to their task.
// (Levels: as for hierarchical_reduce.h.)
using enum CollectiveType;

Schedule PlanEven(const PlanRequest& request) {
  HierarchicalPlanner planner(request, /*num_chunks=*/request.layout.size());
  const Hierarchy& hierarchy = planner.hierarchy();
  const int device = hierarchy.device();
  planner.AddAcrossTasks(device, {.plan = PlanBruckGather,
                                  .type = kAllGather,
                                  .num_tags = hierarchy.num_tasks(),
                                  .chunks = hierarchy.Column(device)});
  for (const std::vector<int>& blocks : request.layout.tasks()) {
    planner.AddInTask({.plan = PlanBruckGather,
                       .type = kAllGather,
                       .num_tags = hierarchy.num_devices(),
                       .chunks = blocks});
  }
  return planner.Build();
}

Schedule PlanWithLeaders(const PlanRequest& request) {
  const GroupLayout& layout = request.layout;
  HierarchicalPlanner planner(request, /*num_chunks=*/layout.size());
  const Hierarchy& hierarchy = planner.hierarchy();
  planner.AddInTask({.plan = PlanBruckGather,
                     .type = kAllGather,
                     .num_tags = LargestTask(layout),
                     .chunks = hierarchy.devices()});
  for (int block = 0; block < layout.size(); ++block) {
    planner.AddAcrossTasks(/*device=*/0, {.plan = PlanHierarchicalTreeBroadcast,
                                          .type = kBroadcast,
                                          .root = layout.task_of(block),
                                          .num_tags = 1,
                                          .chunks = {block}});
  }
  for (int block = 0; block < layout.size(); ++block) {
    if (layout.task_of(block) == hierarchy.task()) {
      planner.AddNothing(/*num_tags=*/1);
      continue;
    }
    planner.AddInTask({.plan = PlanHierarchicalTreeBroadcast,
                       .type = kBroadcast,
                       .num_tags = 1,
                       .chunks = {block}});
  }
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
    traffic.Add(TrafficAcrossTasks(query, size / num_tasks, BruckGatherTraffic,
                                   kAllGather));
    traffic.Add(
        TrafficInTask(query, BruckGatherTraffic, kAllGather).Times(num_tasks));
  } else {
    constexpr auto kBroadcastPart = HierarchicalTreeBroadcastTraffic;
    traffic.Add(TrafficInTask(query, BruckGatherTraffic, kAllGather));
    traffic.Add(
        TrafficAcrossTasks(query, /*num_devices=*/1, kBroadcastPart, kBroadcast)
            .Times(size));
    traffic.Add(TrafficInTask(query, kBroadcastPart, kBroadcast)
                    .Times(size - SmallestTask(query.layout)));
  }
  return traffic.SecondsInPieces(query.model, BlockBytes(query), num_tasks);
}

REGISTER_COLLECTIVE(
    HierarchicalGather,
    Scheduled({.traits = {.summary = "across tasks, then within them: fewest "
                                     "bytes between tasks, log2 n steps",
                          .collectives = {kAllGather},
                          .supports_uneven = true,
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = CostSeconds},
               .plan = Plan}));

}  // namespace
}  // namespace tutti
