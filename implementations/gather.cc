#include "implementations/parts/cost.h"
#include "implementations/parts/lanes_in_turn.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// Every rank sends its block to the root. The root receives a few blocks at a
// time.
//
//   rank 0 --.
//   rank 1 --+--> root: 0 1 2 3     Blocks go straight to their places.
//   rank 3 --'
//
// Takes n - 1 steps on the root, which receives all blocks but its own, and one
// step on other ranks. The bytes are the least possible: no block is sent
// twice.
Schedule Plan(const PlanRequest& request) {
  const int root = request.root;
  const int size = request.layout.size();
  ScheduleBuilder builder(size);
  if (request.rank != root) {
    builder.AddLane().Send(root, /*tag=*/0, Input(request.rank));
    return builder.Build();
  }
  LanesInTurn lanes(kRootTransfersAtOnce, builder);
  for (int places = 1; places < size; ++places) {
    const int from = (root + places) % size;
    lanes.Next().Recv(from, /*tag=*/0, Data(from));
  }
  builder.AddLane().Copy(Data(root), Input(root));
  return builder.Build();
}

REGISTER_COLLECTIVE(
    Gather,
    Scheduled({.traits = {.summary = "everyone sends to the root: fewest bytes",
                          .collectives = {CollectiveType::kGather},
                          .supports_uneven = true,
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = FromRootSeconds},
               .plan = Plan}));

}  // namespace
}  // namespace tutti
