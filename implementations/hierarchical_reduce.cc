#include "implementations/hierarchical_reduce.h"

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "implementations/bruck_gather.h"
#include "implementations/hierarchical_tree_broadcast.h"
#include "implementations/hierarchy.h"
#include "implementations/recursive_halving_reduce_scatter.h"
#include "implementations/tree_reduce.h"
#include "schedule/composition.h"
#include "schedule/group_memory.h"

namespace tutti {
namespace {

constexpr int kOneRing[] = {0};

class Planner {
 public:
  Planner(const PlanRequest& request, int num_chunks)
      : request_(request),
        hierarchy_(request.layout, request.rank),
        whole_({.type = request.type,
                .num_ranks = request.layout.size(),
                .num_chunks = num_chunks},
               request.rank) {}

  // Devices reduce-scatter, all-reduce across tasks, and all-gather.
  Schedule PlanEven(Schedule (*across)(const PlanRequest&)) {
    const int num_tasks = hierarchy_.num_tasks();
    const int num_devices = hierarchy_.num_devices();
    for (int i = 0; num_devices > 1 && i < num_tasks; ++i) {
      AddInTask({.plan = PlanRecursiveHalvingReduceScatter,
                 .type = CollectiveType::kReduceScatter,
                 .num_tags = num_devices,
                 .chunks = EveryChunkFrom(i),
                 .finishes = num_tasks == 1});
    }
    if (num_tasks > 1 || num_devices == 1) {
      AddAcross(across, hierarchy_.device());
    }
    for (int i = 0; num_devices > 1 && i < num_tasks; ++i) {
      AddInTask({.plan = PlanBruckGather,
                 .type = CollectiveType::kAllGather,
                 .num_tags = num_devices,
                 .chunks = EveryChunkFrom(i)});
    }
    return whole_.Build();
  }

  // Leaders all-reduce for their tasks.
  Schedule PlanWithLeaders(Schedule (*across)(const PlanRequest&)) {
    const int num_tasks = hierarchy_.num_tasks();
    for (int chunk = 0; chunk < num_tasks; ++chunk) {
      AddInTask({.plan = PlanTreeReduce,
                 .type = CollectiveType::kReduce,
                 .num_tags = 2,
                 .chunks = {chunk}});
    }
    AddAcross(across, /*device=*/0);
    for (int chunk = 0; chunk < num_tasks; ++chunk) {
      AddInTask({.plan = PlanHierarchicalTreeBroadcast,
                 .type = CollectiveType::kBroadcast,
                 .num_tags = 1,
                 .chunks = {chunk}});
    }
    return whole_.Build();
  }

 private:
  struct PartInTask {
    Schedule (*plan)(const PlanRequest& request);
    CollectiveType type;
    int num_tags;
    std::vector<int> chunks;
    bool finishes = false;
  };

  // Chunk `i` of each device's block, which has one for each task.
  std::vector<int> EveryChunkFrom(int i) const {
    std::vector<int> chunks;
    for (int device = 0; device < hierarchy_.num_devices(); ++device) {
      chunks.push_back(device * hierarchy_.num_tasks() + i);
    }
    return chunks;
  }

  void AddInTask(PartInTask part) {
    const auto layout = GroupLayout::Uniform(1, hierarchy_.num_devices());
    const bool in_place =
        request_.in_place || whole_.IsInOutput(part.chunks.front());
    whole_.Add({.schedule = part.plan({.layout = layout,
                                       .type = part.type,
                                       .rank = hierarchy_.device(),
                                       .in_place = in_place}),
                .ranks = hierarchy_.devices(),
                .chunks = std::move(part.chunks),
                .num_tags = part.num_tags,
                .finishes = part.finishes});
  }

  // Among the ranks that are number `device` in their tasks, each of which
  // takes all chunks of its block.
  void AddAcross(Schedule (*across)(const PlanRequest&), int device) {
    const int num_tasks = hierarchy_.num_tasks();
    const int num_tags = 2 * num_tasks;
    if (hierarchy_.device() != device)
      return whole_.Add({.num_tags = num_tags});
    const auto layout = GroupLayout::Uniform(num_tasks, 1);
    std::vector<int> chunks(num_tasks);
    std::iota(chunks.begin(), chunks.end(), device * num_tasks);
    const bool in_place =
        request_.in_place || whole_.IsInOutput(chunks.front());
    whole_.Add({.schedule = across({.layout = layout,
                                    .type = CollectiveType::kAllReduce,
                                    .rank = hierarchy_.task(),
                                    .subdiv_offsets = kOneRing,
                                    .in_place = in_place}),
                .ranks = hierarchy_.Column(device),
                .chunks = std::move(chunks),
                .num_tags = num_tags,
                .finishes = true});
  }

  const PlanRequest& request_;
  const Hierarchy hierarchy_;
  Composition whole_;
};

}  // namespace

Schedule PlanHierarchicalReduce(
    const PlanRequest& request,
    Schedule (*across)(const PlanRequest& request)) {
  const GroupLayout& layout = request.layout;
  if (IsEven(layout)) {
    return Planner(request, /*num_chunks=*/layout.size()).PlanEven(across);
  }
  return Planner(request, /*num_chunks=*/layout.num_tasks())
      .PlanWithLeaders(across);
}

double HierarchicalReduceSeconds(const CostQuery& query, PartTraffic across) {
  using enum CollectiveType;
  const int num_tasks = query.layout.num_tasks();
  const bool is_even = IsEven(query.layout);
  const int num_devices = is_even ? query.layout.size() / num_tasks : 1;
  Traffic inside =
      is_even ? TrafficInTask(query, RecursiveHalvingReduceScatterTraffic,
                              kReduceScatter)
              : TrafficInTask(query, TreeReduceTraffic, kReduce);
  inside.Add(is_even ? TrafficInTask(query, BruckGatherTraffic, kAllGather)
                     : TrafficInTask(query, HierarchicalTreeBroadcastTraffic,
                                     kBroadcast));
  Traffic all = TrafficAcrossTasks(query, num_devices, across, kAllReduce);
  all.Add(inside.Times(num_tasks));
  const int num_chunks = num_devices * num_tasks;
  return all.SecondsInPieces(
      query.model, static_cast<double>(query.bytes) / num_chunks, num_tasks);
}

}  // namespace tutti
