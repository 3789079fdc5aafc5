#include "implementations/parts/cost.h"
#include "implementations/parts/ring_outline.h"
#include "implementations/parts/subdivision.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// All ranks stand in a ring, and each block goes once round.
//
//   rank 0 --> rank 1 --> rank 2 --> rank 3 --.    Ranks first send their own
//     ^---------------------------------------'    block to the next rank, and
//                                                  then the latest arrival.
//
// n - 1 steps. Every rank sends all blocks but the next rank's: (n - 1) / n of
// the output if blocks are equal, the least possible. With several
// subdivisions, each block is cut into one piece for each ring. (E. Chan et
// al., "Collective communication: theory, practice, and experience",
// Concurrency Computat.: Pract. Exper. 19, 2007.)
void AddRing(const Ring& ring, ScheduleBuilder& builder) {
  const int rounds = ring.size() - 1;
  auto sends = builder.AddLane();
  auto receives = builder.AddLane();
  StepRef arrived;
  for (int round = 0; round < rounds; ++round) {
    const int tag = ring.subdiv() * rounds + round;
    const int sent = ring.ChunkBefore(round);
    sends.Send(ring.next(), tag, round == 0 ? Input(sent) : Data(sent),
               arrived);
    arrived =
        receives.Recv(ring.previous(), tag, Data(ring.ChunkBefore(round + 1)));
  }
  const int own = ring.ChunkBefore(0);
  builder.AddLane().Copy(Data(own), Input(own));
}

REGISTER_COLLECTIVE(
    RingGather,
    Scheduled({.traits = {.summary = "blocks go round a ring: fewest bytes, "
                                     "n - 1 steps",
                          .collectives = {CollectiveType::kAllGather},
                          .supports_subdivisions = true,
                          .rank_list = RankListUse::kAllRanks,
                          .supports_uneven = true,
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = RingSeconds},
               .plan =
                   [](const PlanRequest& request) {
                     return PlanRings(request, AddRing);
                   },
               .subdivide = DefaultSubdivisions,
               .outline =
                   [](const PlanRequest& request) {
                     return RingOutline(request, {.copies_own = true});
                   }}));

// The name in TensorFlow's collective runtime.
REGISTER_COLLECTIVE_ALIAS(RingGatherer, RingGather);

}  // namespace
}  // namespace tutti
