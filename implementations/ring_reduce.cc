#include "implementations/parts/cost.h"
#include "implementations/parts/ring_outline.h"
#include "implementations/parts/subdivision.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// All ranks stand in a ring, and the buffer is cut into one chunk per rank.
//
//   rank 0 --> rank 1 --> rank 2 --> rank 3 --.    In each step all ranks send
//     ^---------------------------------------'    one chunk to the next rank.
//
// Each chunk first goes once round, from the rank after its owner to its owner,
// and every rank adds its part: n - 1 steps. The owner's sum then goes round: n
// - 1 steps. Every rank sends 2 (n - 1) / n of the buffer, the least possible.
// (P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters
// of workstations", J. Parallel Distrib. Comput. 69, 2009.)
//
// With several subdivisions, each chunk is cut into one piece for each ring.
void AddRing(const Ring& ring, ScheduleBuilder& builder) {
  const int own = ring.ChunkBefore(0);
  const int rounds = ring.size() - 1;
  if (rounds == 0) {
    builder.AddLane().CopyAndFinish(Data(own), Input(own));
    return;
  }
  int tag = ring.subdiv() * 2 * rounds;
  auto sends = builder.AddLane();
  auto receives = builder.AddLane();
  StepRef arrived;
  for (int round = 0; round < rounds; ++round, ++tag) {
    const int sent = ring.ChunkBefore(round + 1);
    const int summed = ring.ChunkBefore(round + 2);
    sends.Send(ring.next(), tag, round == 0 ? Input(sent) : Data(sent),
               arrived);
    receives.Recv(ring.previous(), tag, Scratch(summed));
    arrived =
        round + 1 < rounds
            ? receives.Reduce(Data(summed), Scratch(summed), Input(summed))
            : receives.ReduceAndFinish(Data(summed), Scratch(summed),
                                       Input(summed));
  }
  for (int round = 0; round < rounds; ++round, ++tag) {
    sends.Send(ring.next(), tag, Data(ring.ChunkBefore(round)), arrived);
    arrived =
        receives.Recv(ring.previous(), tag, Data(ring.ChunkBefore(round + 1)));
  }
}

double CostSeconds(const CostQuery& query) {
  return RingTraffic(query).Times(2).Seconds(query.model, BlockBytes(query));
}

REGISTER_COLLECTIVE(
    RingReduce,
    Scheduled({.traits = {.summary = "sums go round a ring, then results do: "
                                     "fewest bytes, 2 (n - 1) steps",
                          .collectives = {CollectiveType::kAllReduce},
                          .supports_subdivisions = true,
                          .rank_list = RankListUse::kAllRanks,
                          .determinism = Determinism::kFixedLayout,
                          .cost_seconds = CostSeconds},
               .plan =
                   [](const PlanRequest& request) {
                     return PlanRings(request, AddRing);
                   },
               .subdivide = DefaultSubdivisions,
               .outline =
                   [](const PlanRequest& request) {
                     return RingOutline(
                         request, {.times_around = 2, .times_reduced = 1});
                   }}));

// The name in TensorFlow's collective runtime.
REGISTER_COLLECTIVE_ALIAS(RingReducer, RingReduce);

}  // namespace
}  // namespace tutti
