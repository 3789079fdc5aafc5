#include "implementations/scatter.h"

#include "implementations/parts/lanes_in_turn.h"
#include "tutti/schedule.h"

namespace tutti {

// The root sends every rank its block, a few at a time.
//
//                       .--> rank 0
//   root: 0 1 2 3 ------+--> rank 1     Blocks leave straight from the input.
//                       '--> rank 3
//
// Takes n - 1 steps on the root, which sends all blocks but its own, and one
// step on other ranks. The bytes are the least possible: no block is sent
// twice.
Schedule PlanScatter(const PlanRequest& request) {
  const int root = request.root;
  const int size = request.layout.size();
  ScheduleBuilder builder(size);
  if (request.rank != root) {
    builder.AddLane().Recv(root, /*tag=*/0, Data(request.rank));
    return builder.Build();
  }
  LanesInTurn lanes(kRootTransfersAtOnce, builder);
  for (int places = 1; places < size; ++places) {
    const int to = (root + places) % size;
    lanes.Next().Send(to, /*tag=*/0, Input(to));
  }
  builder.AddLane().Copy(Data(root), Input(root));
  return builder.Build();
}

Traffic ScatterTraffic(const CostQuery& query) {
  return FromRootTraffic(query);
}

namespace {

REGISTER_COLLECTIVE(
    Scatter,
    Scheduled({.traits = {.summary = "the root sends to everyone: fewest bytes",
                          .collectives = {CollectiveType::kScatter},
                          .supports_uneven = true,
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = FromRootSeconds},
               .plan = PlanScatter}));

}  // namespace
}  // namespace tutti
