#include "implementations/parts/cost.h"
#include "implementations/parts/halving_outline.h"
#include "implementations/parts/halving_tree.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// Recursive halving first brings every rank the sum of one chunk of n.
// Recursive doubling then brings all sums to all ranks, back along the same
// paths.
//
//   rank         0        1        2        3
//   halving      0 1 2 3  0 1 2 3  0 1 2 3  0 1 2 3
//                0   2      1   3  0   2      1   3    with i ^ 1
//                0          1          2          3    with i ^ 2
//   doubling     0   2      1   3  0   2      1   3    with i ^ 2
//                0 1 2 3  0 1 2 3  0 1 2 3  0 1 2 3    with i ^ 1
//
// 2 ceil(log2 n) steps. Every rank sends each chunk but its own once while
// halving, and n - 1 chunks while doubling: 2 (n - 1) / n of the buffer, the
// least possible. Each chunk is a separate message; all chunks of a step are
// sent at once. Sums are over consecutive ranks: the merge op need not commute.
// (R. Rabenseifner, "Optimization of collective reduction operations", ICCS
// 2004; Thakur et al. 2005, as for broadcast.)
//
// If n is no power of two, each remaining rank pairs with a neighbour. The two
// ranks divide the halving work of one (halving_tree.h). A rank then sends at
// most log2 n chunks more; all ranks together send none more. In the papers one
// rank of a pair goes on, which takes as many steps and up to two more buffers.
Schedule Plan(const PlanRequest& request) {
  const int size = request.layout.size();
  const int rank = request.rank;
  ScheduleBuilder builder(size);
  if (size == 1) {
    builder.AddLane().CopyAndFinish(Data(0), Input(0));
    return builder.Build();
  }
  const HalvingTrees trees(size);
  for (int chunk = 0; chunk < size; ++chunk) {
    auto lane = builder.AddLane();
    const auto place = trees.PlaceOf(rank, chunk);
    const Slot sum = AddSums(place, rank, chunk, Data(chunk), lane);
    const int down = size + chunk;  // Tag of the result.
    if (chunk != rank) {
      lane.Send(place.parent, /*tag=*/chunk, sum);
      lane.Recv(place.parent, down, Data(chunk));
    }
    for (auto child = place.children.rbegin(); child != place.children.rend();
         ++child) {
      lane.Send(*child, down, Data(chunk));
    }
  }
  return builder.Build();
}

double CostSeconds(const CostQuery& query) {
  return HalvingTraffic(query).Times(2).SecondsInPieces(
      query.model, BlockBytes(query), query.layout.num_tasks());
}

REGISTER_COLLECTIVE(
    RecursiveHalvingDoublingReduce,
    Scheduled({.traits = {.summary = "recursive halving, then doubling, in "
                                     "rank order: fewest bytes, 2 log2 n steps",
                          .collectives = {CollectiveType::kAllReduce},
                          .preserves_rank_order = true,
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = CostSeconds},
               .plan = Plan,
               .outline = HalvingDoublingOutline}));

}  // namespace
}  // namespace tutti
