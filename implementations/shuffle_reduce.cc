#include <numeric>
#include <utility>
#include <vector>

#include "implementations/bruck_gather.h"
#include "implementations/direct_reduce_scatter.h"
#include "implementations/parts/cost.h"
#include "implementations/parts/shuffle_outline.h"
#include "schedule/composition.h"
#include "tutti/schedule.h"

namespace tutti {

namespace {

Schedule PlanWithOwners(const PlanRequest& request) {
  const int size = request.layout.size();
  const auto num_owners = static_cast<int>(request.rank_list.size());
  ScheduleBuilder builder(num_owners);
  for (int chunk = 0; chunk < num_owners; ++chunk) {
    const int owner = request.rank_list[chunk];
    const int sum_tag = num_owners + chunk;
    if (owner != request.rank) {
      auto lane = builder.AddLane();
      lane.Send(owner, /*tag=*/chunk, Input(chunk));
      lane.Recv(owner, sum_tag, Data(chunk));
      continue;
    }
    const StepRef sum = AddReduction(request, chunk, /*tag=*/chunk, builder);
    for (int distance = 1; distance < size; ++distance) {
      builder.AddLane().Send((owner + distance) % size, sum_tag, Data(chunk),
                             sum);
    }
  }
  return builder.Build();
}

// Every rank sends each chunk straight to its owner. The owner reduces all
// arrivals in one pass, in rank order. All ranks then send each other the sums.
//
//   rank             0      1      2      3
//   starts with      0123   0123   0123   0123
//   to the owners    0      1      2      3       one round
//   to all           0123   0123   0123   0123    ceil(log2 n) rounds
//
// DirectReduceScatter, then BruckGather: 1 + ceil(log2 n) steps, the fewest of
// all algorithms that send the least possible, 2 (n - 1) / n of the buffer per
// rank. Sums are in the order of ranks, with floats of 8 and 16 bits rounded
// once. The price is n - 1 chunks of scratch on an owner.
//
// If owners are listed, the buffer is cut into one chunk for each owner. Each
// owner sends its sum to all ranks: two steps, but owners send n - 1 times as
// much as others.
Schedule Plan(const PlanRequest& request) {
  if (!request.rank_list.empty()) return PlanWithOwners(request);
  const int size = request.layout.size();
  Composition whole(
      {.type = request.type, .num_ranks = size, .num_chunks = size},
      request.rank);
  std::vector<int> all(size);
  std::iota(all.begin(), all.end(), 0);
  const auto add = [&](Schedule (*plan)(const PlanRequest&),
                       CollectiveType type, int num_tags) {
    PlanRequest part = {
        .layout = request.layout,
        .type = type,
        .rank = request.rank,
        .in_place = request.in_place || whole.IsInOutput(request.rank)};
    whole.Add({.schedule = plan(part),
               .ranks = all,
               .chunks = all,
               .num_tags = num_tags,
               .finishes = true});
  };
  add(PlanDirectReduceScatter, CollectiveType::kReduceScatter, /*num_tags=*/1);
  add(PlanBruckGather, CollectiveType::kAllGather, /*num_tags=*/size);
  return whole.Build();
}

double CostSeconds(const CostQuery& query) {
  Traffic traffic = DirectReduceScatterTraffic(query);
  traffic.Add(BruckGatherTraffic(query));
  return traffic.Seconds(query.model, BlockBytes(query));
}

REGISTER_COLLECTIVE(
    ShuffleReduce,
    Scheduled(
        {.traits = {.summary = "every chunk straight to its owner, who "
                               "reduces all in one pass, in rank order, then "
                               "to all: fewest bytes, 1 + log2 n steps",
                    .collectives = {CollectiveType::kAllReduce},
                    .preserves_rank_order = true,
                    .reduces_at_once = true,
                    .rank_list = RankListUse::kOwners,
                    .determinism = Determinism::kByRankOrder,
                    .cost_seconds = CostSeconds},
         .plan = Plan,
         .outline = [](const PlanRequest& request) {
           return ShuffleOutline(request, {.scatters = true, .gathers = true});
         }}));

}  // namespace
}  // namespace tutti
