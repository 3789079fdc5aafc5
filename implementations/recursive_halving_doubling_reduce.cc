#include <algorithm>
#include <vector>

#include "implementations/parts/cost.h"
#include "implementations/parts/halving_outline.h"
#include "implementations/parts/halving_tree.h"
#include "implementations/parts/rank_cube.h"
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
// least possible. Chunks are numbered so that a step is one message each way: a
// range of chunks (HalvingTrees::BlocksOf()). Sums are over consecutive ranks:
// the merge op need not commute. (R. Rabenseifner, "Optimization of collective
// reduction operations", ICCS 2004; Thakur et al. 2005, as for broadcast.)
//
// If n is no power of two, each remaining rank pairs with a neighbour. The two
// ranks divide the halving work of one (halving_tree.h); a rank without a
// partner exchanges a range with each. A rank then sends at most log2 n chunks
// more; all ranks together send none more. In the papers one rank of a pair
// goes on, which takes as many steps and up to two more buffers.
struct Exchange {
  int peer = 0;
  HalvingTrees::Blocks sent;  // Sums while halving; results come back.
  HalvingTrees::Blocks kept;
  StepRef sums_sent;
};

// Returns the exchanges with which `rank` moves the blocks of a seat.
std::vector<Exchange> ExchangesOf(const HalvingTrees& trees, int rank,
                                  int seat) {
  const RankCube& cube = trees.cube();
  std::vector<Exchange> exchanges;
  const int corner = cube.CornerOf(rank);
  if (cube.NumRanksAt(corner) == 2) {
    exchanges.push_back({.peer = cube.PartnerOf(rank),
                         .sent = trees.BlocksOf(0, 0, 1 - seat),
                         .kept = trees.BlocksOf(0, 0, seat)});
  }
  for (int dimension = 0; dimension < cube.num_dimensions(); ++dimension) {
    const int across = corner ^ (1 << dimension);
    exchanges.push_back({.peer = cube.RankAt(across, seat),
                         .sent = trees.BlocksOf(across, dimension + 1, seat),
                         .kept = trees.BlocksOf(corner, dimension + 1, seat)});
  }
  return exchanges;
}

// Adds the halving: sends have lanes of their own. Returns the last sum.
StepRef AddHalving(int rank, std::vector<Exchange>& exchanges,
                   ScheduleBuilder::LaneBuilder& lane,
                   ScheduleBuilder& builder) {
  StepRef summed;
  for (Exchange& exchange : exchanges) {
    const bool is_first = &exchange == &exchanges.front();
    const auto sum_of = [is_first](const HalvingTrees::Blocks& blocks) {
      return is_first ? Input(blocks.first, blocks.count)
                      : Data(blocks.first, blocks.count);
    };
    const auto& [peer, sent, kept, sums_sent] = exchange;
    if (sent.count > 0) {
      exchange.sums_sent = builder.AddLane().Send(peer, /*tag=*/sent.first,
                                                  sum_of(sent), summed);
    }
    if (kept.count == 0) continue;
    // Scratch of one arrival, read once by the next step.
    const auto bank = static_cast<int>(&exchange - exchanges.data());
    const Slot arrived = Scratch(kept.first, bank, kept.count);
    lane.Recv(peer, /*tag=*/kept.first, arrived);
    const Slot into = Data(kept.first, kept.count);
    const Slot left = peer < rank ? arrived : sum_of(kept);
    const Slot right = peer < rank ? sum_of(kept) : arrived;
    summed = &exchange == &exchanges.back()
                 ? lane.ReduceAndFinish(into, left, right)
                 : lane.Reduce(into, left, right);
  }
  return summed;
}

// Adds the doubling: the same exchanges backwards, with results.
void AddDoubling(int num_ranks, StepRef summed,
                 std::vector<Exchange>& exchanges,
                 ScheduleBuilder::LaneBuilder& lane, ScheduleBuilder& builder) {
  StepRef have = summed;
  std::reverse(exchanges.begin(), exchanges.end());
  for (const auto& [peer, sent, kept, sums_sent] : exchanges) {
    StepRef results_sent;
    if (kept.count > 0) {
      results_sent = builder.AddLane().Send(peer, num_ranks + kept.first,
                                            Data(kept.first, kept.count), have);
    }
    if (sent.count > 0) {
      have = lane.Recv(peer, num_ranks + sent.first,
                       Data(sent.first, sent.count), sums_sent);
    } else if (results_sent.is_set()) {
      have = lane.Wait(results_sent);
    }
  }
}

Schedule Plan(const PlanRequest& request) {
  const int size = request.layout.size();
  ScheduleBuilder builder(size);
  if (size == 1) {
    builder.AddLane().CopyAndFinish(Data(0), Input(0));
    return builder.Build();
  }
  const HalvingTrees trees(size);
  const RankCube& cube = trees.cube();
  const bool has_partner = cube.PartnerOf(request.rank) != request.rank;
  // A rank without a partner has both seats, if any corner is shared.
  for (int seat = 0; seat < (cube.num_shared() > 0 ? 2 : 1); ++seat) {
    if (has_partner && seat != cube.SeatOf(request.rank)) continue;
    auto exchanges = ExchangesOf(trees, request.rank, seat);
    auto lane = builder.AddLane();
    const StepRef summed = AddHalving(request.rank, exchanges, lane, builder);
    AddDoubling(size, summed, exchanges, lane, builder);
  }
  return builder.Build();
}

double CostSeconds(const CostQuery& query) {
  return HalvingTraffic(query, /*in_ranges=*/true)
      .Times(2)
      .Seconds(query.model, BlockBytes(query));
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
