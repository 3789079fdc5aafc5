#include "implementations/recursive_halving_reduce_scatter.h"

#include <vector>

#include "implementations/parts/halving.h"
#include "implementations/parts/halving_outline.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// In each step a rank keeps half of the blocks that it still has sums of. It
// exchanges the sums of the other half with a rank that keeps that half.
//
//   rank          0        1        2        3
//   starts with   0 1 2 3  0 1 2 3  0 1 2 3  0 1 2 3
//   with i ^ 1    0   2      1   3  0   2      1   3    sums of two ranks
//   with i ^ 2    0          1          2          3    sums of all four
//
// ceil(log2 n) steps. Every rank sends (n - 1) / n of its input, the least
// possible: each block but its own once, as a separate message, all blocks of a
// step at once. The blocks of a step are no range from 8 ranks on: every second
// one, every fourth one. Sums are over consecutive ranks: the merge op need not
// commute. Up to half of the input goes to scratch memory. (Thakur et al. 2005,
// as for broadcast; their algorithm takes the most distant ranks first.)
//
// If n is no power of two, each remaining rank pairs with a neighbour. The two
// ranks divide the halving work of one (halving.h). This takes one step
// more than the largest power of two below n, and no more bytes. In the paper
// one rank of a pair goes on, which costs a step and a buffer more.
//
// Adds the exchanges of one block, if it has any: sums until the block is sent.
void AddBlock(int rank, int block, int place,
              const std::vector<Halving::Exchange>& exchanges,
              ScheduleBuilder& builder) {
  const Halving::Exchange& first = exchanges.front();
  if (!first.sent.Has(place) && !first.kept.Has(place)) return;
  auto lane = builder.AddLane();
  const Slot into = block == rank ? Data(block) : Scratch(block);
  Slot sum = Input(block);
  int bank = 0;
  for (const auto& [peer, sent, kept] : exchanges) {
    if (sent.Has(place)) {
      lane.Send(peer, /*tag=*/block, sum);
      return;
    }
    // Scratch of one arrival, read once by the next step.
    const Slot arrived = Scratch(block, ++bank);
    lane.Recv(peer, /*tag=*/block, arrived);
    const Slot left = peer < rank ? arrived : sum;
    const Slot right = peer < rank ? sum : arrived;
    if (&peer == &exchanges.back().peer) {
      lane.ReduceAndFinish(into, left, right);
    } else {
      lane.Reduce(into, left, right);
    }
    sum = into;
  }
}

}  // namespace

Schedule PlanRecursiveHalvingReduceScatter(const PlanRequest& request) {
  const int size = request.layout.size();
  const int rank = request.rank;
  ScheduleBuilder builder(size);
  if (size == 1) {
    builder.AddLane().CopyAndFinish(Data(0), Input(0));
    return builder.Build();
  }
  const Halving halving(size);
  for (const int seat : halving.SeatsOf(rank)) {
    const auto exchanges = halving.ExchangesOf(rank, seat);
    for (int block = 0; block < size; ++block) {
      AddBlock(rank, block, halving.PlaceOf(block), exchanges, builder);
    }
  }
  return builder.Build();
}

Traffic RecursiveHalvingReduceScatterTraffic(const CostQuery& query) {
  return HalvingTraffic(query, /*in_ranges=*/false);
}

namespace {

double CostSeconds(const CostQuery& query) {
  return RecursiveHalvingReduceScatterTraffic(query).SecondsInPieces(
      query.model, BlockBytes(query), query.layout.num_tasks());
}

REGISTER_COLLECTIVE(
    RecursiveHalvingReduceScatter,
    Scheduled({.traits = {.summary = "all exchange sums of ever fewer blocks, "
                                     "in rank order: fewest bytes, log2 n "
                                     "steps",
                          .collectives = {CollectiveType::kReduceScatter},
                          .preserves_rank_order = true,
                          .supports_uneven = true,
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = CostSeconds},
               .plan = PlanRecursiveHalvingReduceScatter,
               .outline = HalvingOutline}));

}  // namespace
}  // namespace tutti
