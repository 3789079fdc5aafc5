#include "implementations/hierarchical_reduce.h"

#include <numeric>
#include <utility>
#include <vector>

#include "implementations/bruck_gather.h"
#include "implementations/hierarchical_tree_broadcast.h"
#include "implementations/hierarchy.h"
#include "implementations/tree_reduce.h"

namespace tutti {
namespace {

// Chunk `i` of each device's block, which has one for each task.
std::vector<int> EveryChunk(const Hierarchy& hierarchy, int i) {
  std::vector<int> chunks;
  for (int device = 0; device < hierarchy.num_devices(); ++device) {
    chunks.push_back(device * hierarchy.num_tasks() + i);
  }
  return chunks;
}

// All chunks of a device's block.
HierarchicalPlanner::Part AcrossTasks(const Hierarchy& hierarchy, int device,
                                      Schedule (*plan)(const PlanRequest&)) {
  const int num_tasks = hierarchy.num_tasks();
  std::vector<int> chunks(num_tasks);
  std::iota(chunks.begin(), chunks.end(), device * num_tasks);
  return {.plan = plan,
          .type = CollectiveType::kAllReduce,
          .num_tags = 2 * num_tasks,
          .chunks = std::move(chunks),
          .finishes = true};
}

// Devices reduce-scatter, all-reduce across tasks, and all-gather.
Schedule PlanEven(const PlanRequest& request, const ReduceLevels& levels) {
  HierarchicalPlanner planner(request, /*num_chunks=*/request.layout.size());
  const Hierarchy& hierarchy = planner.hierarchy();
  const int num_tasks = hierarchy.num_tasks();
  const int num_devices = hierarchy.num_devices();
  const int num_rounds = num_devices > 1 ? num_tasks : 0;
  for (int i = 0; i < num_rounds; ++i) {
    planner.AddInTask({.plan = levels.inside.plan,
                       .type = CollectiveType::kReduceScatter,
                       .num_tags = num_devices,
                       .chunks = EveryChunk(hierarchy, i),
                       .finishes = num_tasks == 1});
  }
  if (num_tasks > 1 || num_devices == 1) {
    const int device = hierarchy.device();
    planner.AddAcrossTasks(device,
                           AcrossTasks(hierarchy, device, levels.across.plan));
  }
  for (int i = 0; i < num_rounds; ++i) {
    planner.AddInTask({.plan = PlanBruckGather,
                       .type = CollectiveType::kAllGather,
                       .num_tags = num_devices,
                       .chunks = EveryChunk(hierarchy, i)});
  }
  return planner.Build();
}

// Leaders all-reduce for their tasks.
Schedule PlanWithLeaders(const PlanRequest& request,
                         Schedule (*across)(const PlanRequest&)) {
  const int num_chunks = request.layout.num_tasks();
  HierarchicalPlanner planner(request, num_chunks);
  for (int chunk = 0; chunk < num_chunks; ++chunk) {
    planner.AddInTask({.plan = PlanTreeReduce,
                       .type = CollectiveType::kReduce,
                       .num_tags = 2,
                       .chunks = {chunk}});
  }
  planner.AddAcrossTasks(/*device=*/0,
                         AcrossTasks(planner.hierarchy(), 0, across));
  for (int chunk = 0; chunk < num_chunks; ++chunk) {
    planner.AddInTask({.plan = PlanHierarchicalTreeBroadcast,
                       .type = CollectiveType::kBroadcast,
                       .num_tags = 1,
                       .chunks = {chunk}});
  }
  return planner.Build();
}

}  // namespace

Schedule PlanHierarchicalReduce(const PlanRequest& request,
                                const ReduceLevels& levels) {
  return IsEven(request.layout) ? PlanEven(request, levels)
                                : PlanWithLeaders(request, levels.across.plan);
}

double HierarchicalReduceSeconds(const CostQuery& query,
                                 const ReduceLevels& levels) {
  using enum CollectiveType;
  const int num_tasks = query.layout.num_tasks();
  const bool is_even = IsEven(query.layout);
  const int num_devices = is_even ? query.layout.size() / num_tasks : 1;
  Traffic inside =
      is_even ? TrafficInTask(query, levels.inside.traffic, kReduceScatter)
              : TrafficInTask(query, TreeReduceTraffic, kReduce);
  inside.Add(is_even ? TrafficInTask(query, BruckGatherTraffic, kAllGather)
                     : TrafficInTask(query, HierarchicalTreeBroadcastTraffic,
                                     kBroadcast));
  Traffic all =
      TrafficAcrossTasks(query, num_devices, levels.across.traffic, kAllReduce);
  all.Add(inside.Times(num_tasks));
  const int num_chunks = num_devices * num_tasks;
  return all.SecondsInPieces(
      query.model, static_cast<double>(query.bytes) / num_chunks, num_tasks);
}

}  // namespace tutti
