// The algorithm of docs/add_an_algorithm.md, which shows parts of this file.

#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

Schedule StarReducePlan(const PlanRequest& request) {
  const int n = request.layout.size();
  ScheduleBuilder builder(/*num_chunks=*/1);
  auto lane = builder.AddLane();
  if (n == 1) {
    lane.CopyAndFinish(Data(0), Input(0));
    return builder.Build();
  }
  if (request.rank > 0) {
    lane.Send(/*peer=*/0, /*tag=*/0, Input(0));
    lane.Recv(/*peer=*/0, /*tag=*/1, Data(0));
    return builder.Build();
  }
  StepRef summed;
  for (int peer = 1; peer < n; ++peer) {
    const Slot sum = peer == 1 ? Input(0) : Data(0);
    const Slot incoming = Scratch(0, peer);
    lane.Recv(peer, /*tag=*/0, incoming);
    summed = peer < n - 1 ? lane.Reduce(Data(0), sum, incoming)
                          : lane.ReduceAndFinish(Data(0), sum, incoming);
  }
  for (int peer = 1; peer < n; ++peer) {
    builder.AddLane().Send(peer, /*tag=*/1, Data(0), summed);
  }
  return builder.Build();
}

REGISTER_COLLECTIVE(
    StarReduce,
    Scheduled({.traits = {.summary = "rank 0 adds up for all: two steps",
                          .collectives = {CollectiveType::kAllReduce},
                          .preserves_rank_order = true,
                          .determinism = Determinism::kByRankOrder},
               .plan = StarReducePlan}));

}  // namespace
}  // namespace tutti
