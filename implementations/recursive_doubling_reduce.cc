#include <utility>
#include <vector>

#include "implementations/parts/cost.h"
#include "implementations/parts/rank_cube.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// Ranks exchange sums with ever more distant ranks and add them. Both sides of
// an exchange put the lower ranks on the left: all get the same bits, summed in
// the order of ranks.
//
//   rank     0       1       2       3
//   input    a       b       c       d
//            '---+---'       '---+---'
//            a+b     a+b     c+d     c+d
//            '-------'---+---'-------'     0 with 2, 1 with 3
//            a+b+c+d in all four
//
// log2 n steps. In each step every rank sends and receives the whole buffer:
// for few bytes. (Thakur et al. 2005, as for broadcast.)
//
// If n is no power of two, each remaining rank pairs with a neighbour
// (rank_cube.h). The two ranks of a pair first exchange inputs. Both then stand
// for the pair: two pairs exchange in parallel. A rank without a partner sends
// to both ranks of a pair, and one of them sends to it. In each of the
// ceil(log2 n) steps a rank receives one buffer and sends at most two. (In the
// paper one rank of a pair goes on and sends the result back: one step more,
// and fewer bytes.)
struct Exchange {
  int from = 0;
  std::vector<int> to;
};

std::vector<Exchange> ExchangesOf(int rank, const RankCube& cube) {
  std::vector<Exchange> exchanges;
  const int corner = cube.CornerOf(rank);
  const int partner = cube.PartnerOf(rank);
  if (partner != rank) {
    exchanges.push_back({.from = partner, .to = {partner}});
  }
  for (int dimension = 0; dimension < cube.num_dimensions(); ++dimension) {
    const int across = corner ^ (1 << dimension);
    Exchange exchange = {.from = cube.Across(rank, dimension)};
    for (int other = 0; other < cube.NumRanksAt(across); ++other) {
      if (cube.RankAt(corner, other) != rank) continue;
      exchange.to.push_back(cube.RankAt(across, other));
    }
    exchanges.push_back(std::move(exchange));
  }
  return exchanges;
}

// Sends of a sum go on while the next sum is made. Each sum but the last
// therefore has separate memory: ceil(log2 n) - 1 buffers, which are small
// here. No rank waits until its peer has read a sum. In place, the input would
// be overwritten while it is sent. A copy in one more buffer is sent instead.
Schedule Plan(const PlanRequest& request) {
  ScheduleBuilder builder(/*num_chunks=*/1);
  auto lane = builder.AddLane();
  const RankCube cube(request.layout.size());
  const auto exchanges = ExchangesOf(request.rank, cube);
  if (exchanges.empty()) {
    lane.CopyAndFinish(Data(0), Input(0));
    return builder.Build();
  }
  int bank = 0;
  Slot sum = Input(0);
  StepRef summed;
  if (request.in_place) {
    sum = Scratch(0, bank++);
    summed = lane.Copy(sum, Input(0));
  }
  for (const Exchange& exchange : exchanges) {
    for (int to : exchange.to) {
      builder.AddLane().Send(to, /*tag=*/0, sum, summed);
    }
    const Slot arrived = Scratch(0, bank++);
    lane.Recv(exchange.from, /*tag=*/0, arrived);
    const bool is_left = exchange.from < request.rank;
    const Slot left = is_left ? arrived : sum;
    const Slot right = is_left ? sum : arrived;
    const bool is_last = &exchange == &exchanges.back();
    sum = is_last ? Data(0) : Scratch(0, bank++);
    summed = is_last ? lane.ReduceAndFinish(sum, left, right)
                     : lane.Reduce(sum, left, right);
  }
  return builder.Build();
}

// With pairs, a step takes as long as a rank without a partner takes to send
// two buffers.
double CostSeconds(const CostQuery& query) {
  const RankCube cube(query.layout.size());
  const bool has_pairs = cube.num_shared() > 0;
  Traffic traffic;
  if (has_pairs) {
    const Crossings crossings =
        CrossingsOf(query, [&](int rank) { return cube.PartnerOf(rank); });
    traffic.Add(crossings, /*messages=*/1, /*blocks=*/1);
  }
  for (int dimension = 0; dimension < cube.num_dimensions(); ++dimension) {
    const Crossings crossings = CrossingsOf(
        query, [&](int rank) { return cube.Across(rank, dimension); });
    traffic.Add(crossings, /*messages=*/1, /*blocks=*/has_pairs ? 2 : 1);
  }
  return traffic.Seconds(query.model, static_cast<double>(query.bytes));
}

REGISTER_COLLECTIVE(
    RecursiveDoublingReduce,
    Scheduled({.traits = {.summary = "all exchange sums with ever more distant "
                                     "ranks, in rank order: log2 n steps",
                          .collectives = {CollectiveType::kAllReduce},
                          .preserves_rank_order = true,
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = CostSeconds},
               .plan = Plan}));

}  // namespace
}  // namespace tutti
