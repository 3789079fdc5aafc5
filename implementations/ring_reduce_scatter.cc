#include "implementations/parts/cost.h"
#include "implementations/parts/ring_outline.h"
#include "implementations/parts/subdivision.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// All ranks stand in a ring. The sum for a rank starts at the rank after it and
// goes once round; every rank adds its part.
//
//   rank 0 --> rank 1 --> rank 2 --> rank 3 --.    In each step all ranks send
//     ^---------------------------------------'    one block to the next rank.
//
// n - 1 steps; every rank sends (n - 1) / n of its input, the least possible.
// With several subdivisions, each block is cut into one piece for each ring.
// This is the first half of Patarasuk and Yuan's all-reduce (RingReduce).
//
// A partial sum in transit needs memory besides the output: two pieces in turn,
// because one is sent while the next is made. If blocks differ in size, each
// has separate memory.
void AddRing(const Ring& ring, bool blocks_differ, ScheduleBuilder& builder) {
  const int own = ring.ChunkBefore(0);
  const int rounds = ring.size() - 1;
  if (rounds == 0) {
    builder.AddLane().CopyAndFinish(Data(own), Input(own));
    return;
  }
  const auto partial = [&](int round) {
    return blocks_differ ? Scratch(ring.ChunkBefore(round + 2), /*bank=*/1)
                         : Scratch(own, /*bank=*/1 + round % 2);
  };
  auto sends = builder.AddLane();
  auto receives = builder.AddLane();
  StepRef arrived;
  StepRef sent;
  for (int round = 0; round < rounds; ++round) {
    const int tag = ring.subdiv() * rounds + round;
    const int summed = ring.ChunkBefore(round + 2);
    // The previous send frees the memory of this round's sum.
    receives.Recv(ring.previous(), tag, Scratch(summed),
                  round < 2 || blocks_differ ? StepRef{} : sent);
    sent = sends.Send(
        ring.next(), tag,
        round == 0 ? Input(ring.ChunkBefore(1)) : partial(round - 1), arrived);
    arrived =
        round + 1 < rounds
            ? receives.Reduce(partial(round), Scratch(summed), Input(summed))
            : receives.ReduceAndFinish(Data(own), Scratch(own), Input(own));
  }
}

Schedule Plan(const PlanRequest& request) {
  return PlanRings(request, [&](const Ring& ring, ScheduleBuilder& builder) {
    AddRing(ring, request.blocks_differ, builder);
  });
}

REGISTER_COLLECTIVE(
    RingReduceScatter,
    Scheduled({.traits = {.summary = "sums go round a ring to their owners: "
                                     "fewest bytes, n - 1 steps",
                          .collectives = {CollectiveType::kReduceScatter},
                          .supports_subdivisions = true,
                          .rank_list = RankListUse::kAllRanks,
                          .supports_uneven = true,
                          .determinism = Determinism::kFixedLayout,
                          .cost_seconds = RingSeconds},
               .plan = Plan,
               .subdivide = DefaultSubdivisions,
               .outline = [](const PlanRequest& request) {
                 const int max_partials =
                     request.blocks_differ ? request.layout.size() : 2;
                 return RingOutline(request, {.times_reduced = 1,
                                              .max_partials = max_partials});
               }}));

}  // namespace
}  // namespace tutti
