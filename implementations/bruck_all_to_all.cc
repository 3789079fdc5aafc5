#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "implementations/parts/cost.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// The places of each hop over `distance`, ascending.
std::vector<int> HopsOf(int distance) {
  std::vector<int> hops;
  for (int stride = 1; stride <= distance; stride *= 2) {
    if ((distance & stride) != 0) hops.push_back(stride);
  }
  return hops;
}

// What a rank does with the blocks that go `distance` places, which is their
// tag: no two rounds have the same peer.
struct Route {
  std::vector<int> hops;
  ScheduleBuilder::LaneBuilder sends;
  ScheduleBuilder::LaneBuilder receives;
  StepRef sent = {};        // The own block.
  StepRef input_free = {};  // Where this one is complete, it may be written.
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

  // REQUIRES: SendOwn() of all distances.
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

// A block goes to a rank that is `distance` places on, in a hop of 2^k places
// for each bit k of `distance`. In round k all blocks go on that have bit k.
//
//   distance      1   2   3   4   5   6   7      n = 8, on every rank
//   k = 0        +1      +1      +1      +1
//   k = 1            +2  +2          +2  +2
//   k = 2                    +4  +4  +4  +4
//
// ceil(log2 n) rounds for any n, and a block has floor(log2 n) hops at most,
// where pairwise exchange has n - 1 rounds. But a rank sends about n / 2 blocks
// in each, so log2(n) / 2 times as many in all, and each is a message of its
// own, all of a round at once: this wins only where messages one after the
// other take much longer than messages at once, and blocks are small. (J. Bruck
// et al., "Efficient algorithms for all-to-all communications in multiport
// message-passing systems", IEEE Trans. Parallel Distrib. Syst. 8, 1997. There
// a round is one message, and the blocks need to be put in order before the
// first and after the last.)
//
// Between its hops a block is in scratch memory, in two slots by turns: one is
// sent from while the other is received into. Any slot fits any block, as all
// have one size.
//
// In place, what arrives over `distance` places lands on what goes
// n - `distance` places. Where that has not left in an earlier round, it is set
// aside in scratch memory: floor(log2 n) blocks.
Schedule Plan(const PlanRequest& request) {
  const int size = request.layout.size();
  ScheduleBuilder builder(size);
  Routes routes(request, builder);
  for (int distance = 1; distance < size; ++distance) routes.SendOwn(distance);
  for (int distance = 1; distance < size; ++distance) routes.PassOn(distance);
  builder.AddLane().Copy(Data(request.rank), Input(request.rank));
  return builder.Build();
}

// Of 0, 1, ... size - 1, those that have the bit `stride`.
int NumWithBit(int size, int stride) {
  return size / (2 * stride) * stride +
         std::max(size % (2 * stride) - stride, 0);
}

// Among up to three ranks this is pairwise exchange; a tie is to fall to that.
constexpr double kAboveATie = 1 + 1e-9;

// Each message at once with others takes a gap (cost.h), of which this has more
// than pairwise exchange. So it costs more while the gap is less than a
// latency, and runs only where it is named.
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
