#include <cstddef>
#include <vector>

#include "implementations/parts/cost.h"
#include "implementations/parts/halving.h"
#include "implementations/parts/halving_outline.h"
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
// range of chunks (Halving::Places). Sums are over consecutive ranks: the merge
// op need not commute. (R. Rabenseifner, "Optimization of collective reduction
// operations", ICCS 2004; Thakur et al. 2005, as for broadcast.)
//
// If n is no power of two, each remaining rank pairs with a neighbour. The two
// ranks divide the halving work of one (halving.h); a rank without a partner
// exchanges a range with each. A rank then sends at most log2 n chunks more;
// all ranks together send none more. In the papers one rank of a pair goes on,
// which takes as many steps and up to two more buffers.
using Exchange = Halving::Exchange;
using Places = Halving::Places;

struct Halved {
  std::vector<StepRef> sent;  // By exchange.
  StepRef summed;             // The last sum.
};

// Adds the halving; each send has a lane.
Halved AddHalving(int rank, const std::vector<Exchange>& exchanges,
                  ScheduleBuilder::LaneBuilder& lane,
                  ScheduleBuilder& builder) {
  Halved steps = {.sent = std::vector<StepRef>(exchanges.size())};
  for (size_t i = 0; i < exchanges.size(); ++i) {
    const auto& [peer, sent, kept] = exchanges[i];
    const auto sum_of = [i](const Places& places) {
      return i == 0 ? Input(places.first, places.count)
                    : Data(places.first, places.count);
    };
    if (sent.count > 0) {
      steps.sent[i] = builder.AddLane().Send(peer, /*tag=*/sent.first,
                                             sum_of(sent), steps.summed);
    }
    if (kept.count == 0) continue;
    // Scratch of one arrival, read once by the next step.
    const Slot arrived = Scratch(kept.first, static_cast<int>(i), kept.count);
    lane.Recv(peer, /*tag=*/kept.first, arrived);
    const Slot into = Data(kept.first, kept.count);
    const Slot left = peer < rank ? arrived : sum_of(kept);
    const Slot right = peer < rank ? sum_of(kept) : arrived;
    steps.summed = i + 1 == exchanges.size()
                       ? lane.ReduceAndFinish(into, left, right)
                       : lane.Reduce(into, left, right);
  }
  return steps;
}

// Adds the doubling: the same exchanges backwards, with results.
void AddDoubling(int num_ranks, const std::vector<Exchange>& exchanges,
                 const Halved& halved, ScheduleBuilder::LaneBuilder& lane,
                 ScheduleBuilder& builder) {
  StepRef have = halved.summed;
  for (size_t i = exchanges.size(); i-- > 0;) {
    const auto& [peer, sent, kept] = exchanges[i];
    StepRef results_sent;
    if (kept.count > 0) {
      results_sent = builder.AddLane().Send(peer, num_ranks + kept.first,
                                            Data(kept.first, kept.count), have);
    }
    if (sent.count > 0) {
      have = lane.Recv(peer, num_ranks + sent.first,
                       Data(sent.first, sent.count), halved.sent[i]);
    } else if (results_sent.is_set()) {
      // A rank sends along one dimension after the other.
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
  const Halving halving(size);
  for (const int seat : halving.SeatsOf(request.rank)) {
    const auto exchanges = halving.ExchangesOf(request.rank, seat);
    auto lane = builder.AddLane();
    AddDoubling(size, exchanges,
                AddHalving(request.rank, exchanges, lane, builder), lane,
                builder);
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
