#include "implementations/direct_reduce_scatter.h"

#include "schedule/algorithm.h"
#include "schedule/schedule_builder.h"

namespace tutti {
StepRef AddReduction(const PlanRequest& request, int chunk, int tag,
                     ScheduleBuilder& builder) {
  const int size = request.layout.size();
  auto reducing = builder.AddLane();
  const auto contribution = [&](int from) {
    return from == request.rank ? Input(chunk) : Scratch(chunk, /*bank=*/from);
  };
  if (size == 1) return reducing.CopyAndFinish(Data(chunk), contribution(0));
  const auto receive = [&](int from) {
    if (from == request.rank) return StepRef();
    return builder.AddLane().Recv(from, tag, contribution(from));
  };
  // A step waits for one step of another lane, but the first reduction needs
  // two contributions: rank 0's arrives in the lane that reduces.
  if (request.rank != 0) reducing.Recv(0, tag, contribution(0));
  // Sums take the place of the first contribution that arrives: no more memory.
  const Slot sum = contribution(request.rank == 0 ? 1 : 0);
  Slot reduced = contribution(0);
  for (int from = 1; from + 1 < size; ++from) {
    reducing.Reduce(sum, reduced, contribution(from), receive(from));
    reduced = sum;
  }
  return reducing.ReduceAndFinish(Data(chunk), reduced, contribution(size - 1),
                                  receive(size - 1));
}

// Every rank sends each block to its owner, who reduces what arrives in rank
// order. With three ranks a, b and c:
//
//                    block 0       block 1       block 2
//   to the owners    b0, c0 -> a   a1, c1 -> b   a2, b2 -> c
//   in rank order    a0 + b0 + c0  a1 + b1 + c1  a2 + b2 + c2
//
// One round of n - 1 messages per rank, which carry (n - 1) / n of its input,
// the least possible. The merge op need not commute, and 16-bit floats are
// rounded once per addition. In exchange the owner sets aside n - 1 blocks, and
// speaks to all ranks at once.
Schedule PlanDirectReduceScatter(const PlanRequest& request) {
  const int size = request.layout.size();
  const int rank = request.rank;
  ScheduleBuilder builder(size);
  AddReduction(request, /*chunk=*/rank, /*tag=*/0, builder);
  // Starts with the next rank, so that not all send to the same one.
  for (int distance = 1; distance < size; ++distance) {
    const int peer = (rank + distance) % size;
    builder.AddLane().Send(peer, /*tag=*/0, Input(peer));
  }
  return builder.Build();
}

// What arrives is set aside and read once more.
Traffic DirectReduceScatterTraffic(const CostQuery& query) {
  Traffic traffic = ToAllTraffic(query);
  traffic.Add({}, /*messages=*/0, query.layout.size() - 1);
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
                                     "who reduces in rank order, rounding each "
                                     "time: one round",
                          .collectives = {CollectiveType::kReduceScatter},
                          .preserves_rank_order = true,
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = CostSeconds},
               .plan = PlanDirectReduceScatter}));

}  // namespace
}  // namespace tutti
