#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "implementations/parts/cost.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// Returns the hops of a block that goes over `distance` places, ascending.
std::vector<int> HopsOf(int distance) {
  std::vector<int> hops;
  for (int stride = 1; stride <= distance; stride *= 2) {
    if ((distance & stride) != 0) hops.push_back(stride);
  }
  return hops;
}

// A rank's steps for all blocks that go over `distance` places. `distance` is
// their tag: no two rounds have the same peer.
struct Route {
  std::vector<int> hops;
  ScheduleBuilder::LaneBuilder sends;
  ScheduleBuilder::LaneBuilder receives;
  StepRef sent = {};        // Send of the own block.
  StepRef input_free = {};  // Frees the own block of the input.
};

class Routes {
 public:
  Routes(const PlanRequest& request, ScheduleBuilder& builder)
      : rank_(request.rank),
        size_(request.layout.size()),
        in_place_(request.in_place) {
    for (int distance = 1; distance < size_; ++distance) {
      routes_.push_back({.hops = HopsOf(distance),
                         .sends = builder.AddLane(),
                         .receives = builder.AddLane()});
    }
  }

  void SendOwn(int distance) {
    Route& route = RouteOf(distance);
    const Slot own = Input(To(distance));
    const int next = To(route.hops.front());
    if (IsSetAside(distance)) {
      const Slot aside = Scratch(own.chunk, /*bank=*/1);
      route.input_free = route.receives.Copy(aside, own);
      route.sent = route.sends.Send(next, distance, aside, route.input_free);
    } else {
      route.sent = route.sends.Send(next, distance, own);
      route.input_free = route.sent;
    }
  }

  // Sends on the blocks that arrive. REQUIRES: SendOwn() was called for all
  // distances.
  void PassOn(int distance) {
    Route& route = RouteOf(distance);
    const std::vector<int>& hops = route.hops;
    StepRef slot_free;
    StepRef sent = route.sent;
    for (size_t i = 0; i + 1 < hops.size(); ++i) {
      const Slot slot = Scratch(To(distance), /*bank=*/i % 2);
      const StepRef arrived =
          route.receives.Recv(From(hops[i]), distance, slot, slot_free);
      slot_free = sent;
      sent = route.sends.Send(To(hops[i + 1]), distance, slot, arrived);
    }
    route.receives.Recv(
        From(hops.back()), distance, Data(From(distance)),
        in_place_ ? RouteOf(size_ - distance).input_free : StepRef());
  }

 private:
  bool IsSetAside(int distance) {
    return in_place_ && RouteOf(distance).hops.front() >=
                            RouteOf(size_ - distance).hops.back();
  }

  Route& RouteOf(int distance) { return routes_[distance - 1]; }
  int To(int distance) const { return (rank_ + distance) % size_; }
  int From(int distance) const { return (rank_ - distance + size_) % size_; }

  const int rank_;
  const int size_;
  const bool in_place_;
  std::vector<Route> routes_;  // By distance.
};

// A block that goes to the rank `distance` places further takes a hop of 2^k
// places for each bit k of `distance`. In round k, all blocks whose `distance`
// has bit k hop.
//
//   distance      1   2   3   4   5   6   7      n = 8, on every rank
//   k = 0        +1      +1      +1      +1
//   k = 1            +2  +2          +2  +2
//   k = 2                    +4  +4  +4  +4
//
// ceil(log2 n) rounds for any n, with at most floor(log2 n) hops per block;
// pairwise exchange has n - 1 rounds. But a rank sends about n / 2 blocks in
// each round: log2(n) / 2 times as many in total. Each block is a separate
// message, and all messages of a round are sent at once. This wins only for
// small blocks, where messages in sequence take much longer than messages at
// once. (J. Bruck et al., "Efficient algorithms for all-to-all communications
// in multiport message-passing systems", IEEE Trans. Parallel Distrib. Syst. 8,
// 1997. In the paper a round is one message, and blocks are put in order before
// the first round and after the last.)
//
// Between its hops a block is in scratch memory, in two slots by turns: one
// slot is sent while the other receives. All blocks have one size, so any slot
// fits any block.
//
// In place, a block that arrives over `distance` places overwrites the block
// that goes over n - `distance` places. If that block has not left in an
// earlier round, it is first copied to scratch memory: floor(log2 n) blocks.
Schedule Plan(const PlanRequest& request) {
  const int size = request.layout.size();
  ScheduleBuilder builder(size);
  Routes routes(request, builder);
  for (int distance = 1; distance < size; ++distance) routes.SendOwn(distance);
  for (int distance = 1; distance < size; ++distance) routes.PassOn(distance);
  builder.AddLane().Copy(Data(request.rank), Input(request.rank));
  return builder.Build();
}

// Returns how many of the numbers 0 to size - 1 have the bit `stride`.
int NumWithBit(int size, int stride) {
  return size / (2 * stride) * stride +
         std::max(size % (2 * stride) - stride, 0);
}

// Factor that makes a tie fall to pairwise exchange, which is the same among up
// to three ranks.
constexpr double kAboveATie = 1 + 1e-9;

// Each message sent at once with others takes a gap (cost.h). This algorithm
// has more messages than pairwise exchange. It costs more if the gap is below a
// latency, and then runs only by name.
double CostSeconds(const CostQuery& query) {
  const int size = query.layout.size();
  Traffic traffic;
  for (int stride = 1; stride < size; stride *= 2) {
    const int blocks = NumWithBit(size, stride);
    traffic.AddAtOnce(
        CrossingsOf(query, [&](int rank) { return (rank + stride) % size; }),
        blocks, blocks);
  }
  return kAboveATie * traffic.Seconds(query.model, BlockBytes(query));
}

REGISTER_COLLECTIVE(
    BruckAllToAll,
    Scheduled({.traits = {.summary = "blocks of one size go on by powers of "
                                     "two: log2 n steps, log2(n) / 2 times the "
                                     "bytes",
                          .collectives = {CollectiveType::kAllToAll},
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = CostSeconds},
               .plan = Plan}));

}  // namespace
}  // namespace tutti
