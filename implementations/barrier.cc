#include <cstdint>

#include "implementations/parts/binomial_tree.h"
#include "implementations/parts/cost.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// In round k every rank sends a token to the rank 2^k places after it. It
// receives a token from the rank 2^k places before it. The token says that all
// ranks known to the sender have come.
//
//   k = 0:  0 -> 1 -> 2 -> 3 -> 0      After round k each rank knows of
//   k = 1:  0 <-> 2, 1 <-> 3           2^(k + 1) ranks, itself included.
//
// ceil(log2 n) rounds; every rank sends one byte in each. (D. Hensgen, R.
// Finkel, U. Manber, "Two algorithms for barrier synchronization", Int. J.
// Parallel Program. 17, 1988: dissemination.)
Schedule Plan(const PlanRequest& request) {
  const int64_t size = request.layout.size();
  ScheduleBuilder builder(/*num_chunks=*/1);
  if (size == 1) return builder.Build();
  auto sends = builder.AddLane();
  auto receives = builder.AddLane();
  StepRef heard;
  int round = 0;
  for (int64_t distance = 1; distance < size; distance *= 2, ++round) {
    const auto to = static_cast<int>((request.rank + distance) % size);
    const auto from = static_cast<int>((request.rank - distance + size) % size);
    sends.Send(to, round, Input(0), heard);
    heard = receives.Recv(from, round, Scratch(0));
  }
  return builder.Build();
}

double CostSeconds(const CostQuery& query) {
  const double rounds = CeilLog2(query.layout.size());
  Traffic traffic;
  traffic.Add(BothWays(query), rounds, rounds);
  return traffic.Seconds(query.model, /*block_bytes=*/1);
}

REGISTER_COLLECTIVE(
    Barrier,
    Scheduled({.traits = {.summary = "everyone tells ever more distant ranks: "
                                     "log2 n steps",
                          .collectives = {CollectiveType::kBarrier},
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = CostSeconds},
               .plan = Plan}));

}  // namespace
}  // namespace tutti
