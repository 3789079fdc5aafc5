#include "implementations/direct_reduce_scatter.h"

#include <vector>

#include "implementations/parts/shuffle_outline.h"
#include "tutti/schedule.h"

namespace tutti {

StepRef AddReduction(const PlanRequest& request, int chunk, int tag,
                     ScheduleBuilder& builder) {
  const int size = request.layout.size();
  auto reducing = builder.AddLane();
  std::vector<Slot> contributions;
  StepRef awaited;
  for (int from = 0; from < size; ++from) {
    if (from == request.rank) {
      contributions.push_back(Input(chunk));
      continue;
    }
    contributions.push_back(Scratch(chunk, /*bank=*/from));
    // The first contribution arrives in the lane that reduces: between two
    // ranks the engine fuses the two steps. A step can wait for one step of
    // another lane. The reduction itself waits for the last arrival, and wait
    // steps before it wait for the others.
    const bool is_first = from == (request.rank == 0 ? 1 : 0);
    auto receiving = is_first ? reducing : builder.AddLane();
    const StepRef arrived = receiving.Recv(from, tag, contributions.back());
    if (is_first) continue;
    if (awaited.is_set()) reducing.Wait(awaited);
    awaited = arrived;
  }
  return reducing.ReduceManyAndFinish(Data(chunk), contributions, awaited);
}

// Every rank sends each block to its owner. The owner reduces the arrivals in
// rank order. With three ranks a, b and c:
//
//                    block 0       block 1       block 2
//   to the owners    b0, c0 -> a   a1, c1 -> b   a2, b2 -> c
//   in rank order    a0 + b0 + c0  a1 + b1 + c1  a2 + b2 + c2
//
// Takes one round of n - 1 messages per rank, with (n - 1) / n of its input,
// the least possible. The owner reduces all arrivals in one pass: floats of 8
// and 16 bits are rounded once, and the merge op need not commute. The price is
// n - 1 blocks of scratch, and messages to all ranks at once.
Schedule PlanDirectReduceScatter(const PlanRequest& request) {
  const int size = request.layout.size();
  const int rank = request.rank;
  ScheduleBuilder builder(size);
  AddReduction(request, /*chunk=*/rank, /*tag=*/0, builder);
  // Sends start with the next rank, so that ranks do not all send to the same
  // one.
  for (int distance = 1; distance < size; ++distance) {
    const int peer = (rank + distance) % size;
    builder.AddLane().Send(peer, /*tag=*/0, Input(peer));
  }
  return builder.Build();
}

// With two ranks, the other rank's block is reduced as it arrives.
Traffic DirectReduceScatterTraffic(const CostQuery& query) {
  Traffic traffic = ToAllTraffic(query);
  const int size = query.layout.size();
  const int inside = SpansProcesses(query) ? LargestTask(query.layout) : size;
  traffic.SetAside(inside - 1, size > 2 ? size - inside : 0);
  return traffic;
}

namespace {

double CostSeconds(const CostQuery& query) {
  return DirectReduceScatterTraffic(query).Seconds(query.model,
                                                   BlockBytes(query));
}

REGISTER_COLLECTIVE(
    DirectReduceScatter,
    Scheduled({.traits = {.summary = "every block goes straight to its owner, "
                                     "who reduces all in one pass, in rank "
                                     "order: one round",
                          .collectives = {CollectiveType::kReduceScatter},
                          .preserves_rank_order = true,
                          .reduces_at_once = true,
                          .supports_uneven = true,
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = CostSeconds},
               .plan = PlanDirectReduceScatter,
               .outline = [](const PlanRequest& request) {
                 return ShuffleOutline(request, {.scatters = true});
               }}));

}  // namespace
}  // namespace tutti
