#include <utility>
#include <vector>

#include "implementations/parts/cost.h"
#include "implementations/parts/rank_cube.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// Everyone exchanges sums with ever more distant ranks and adds what arrives.
// Both sides of an exchange put the lower ranks on the left: all get the same
// bits, summed in the order of ranks.
//
//   rank     0       1       2       3
//   input    a       b       c       d
//            '---+---'       '---+---'
//            a+b     a+b     c+d     c+d
//            '-------'---+---'-------'     0 with 2, 1 with 3
//            a+b+c+d in all four
//
// log2 n steps, in each of which every rank sends and receives the whole
// buffer: for few bytes. (Thakur et al. 2005, as for broadcast.)
//
// Where n is no power of two, the ranks left over pair with a neighbour
// (rank_cube.h). The two of a pair first exchange inputs and then both stand
// for the pair: two pairs exchange in parallel, and a rank without a partner
// sends to both of a pair, one of which sends to it. That is ceil(log2 n)
// steps, in each of which a rank receives one buffer and sends two at most.
// (The paper's pairs go on as one rank, which sends the result back: one step
// more, and fewer bytes.)
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

// A sum is lent while the next one is made, so that each but the last has
// memory of its own: ceil(log2 n) - 1 buffers, few bytes where this serves, and
// nobody waits until a sum has been read. In place the input would be
// overwritten while it is lent: a copy of it is lent instead, in one buffer
// more.
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

// Where ranks pair, a step takes as long as a rank without a partner takes to
// send two buffers.
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
