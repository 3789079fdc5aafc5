#include "implementations/cost.h"
#include "implementations/subdivision.h"
#include "schedule/algorithm.h"
#include "schedule/schedule_builder.h"

namespace tutti {
namespace {

// All ranks stand in a ring, and each block goes once round.
//
//   rank 0 --> rank 1 --> rank 2 --> rank 3 --.    First everyone sends their
//     ^---------------------------------------'    own block to the next rank,
//                                                  then what came last.
//
// n - 1 steps; every rank sends all blocks but that of the next rank, (n - 1) /
// n of the output where blocks are equal: the least possible. With several
// subdivisions each block is cut into as many pieces, one for each ring.
// (E. Chan et al., "Collective communication: theory, practice, and
// experience", Concurrency Computat.: Pract. Exper. 19, 2007.)
void AddRing(const Ring& ring, int subdiv, int num_subdivs,
             ScheduleBuilder& builder) {
  const auto chunk_of = [&](int places_before) {
    return ring.Before(places_before) * num_subdivs + subdiv;
  };
  const int rounds = ring.size() - 1;
  auto sends = builder.AddLane();
  auto receives = builder.AddLane();
  StepRef arrived;
  for (int round = 0; round < rounds; ++round) {
    const int tag = subdiv * rounds + round;
    const int sent = chunk_of(round);
    sends.Send(ring.next(), tag, round == 0 ? Input(sent) : Data(sent),
               arrived);
    arrived = receives.Recv(ring.previous(), tag, Data(chunk_of(round + 1)));
  }
}

Schedule Plan(const PlanRequest& request) {
  const int size = request.layout.size();
  const int num_subdivs = static_cast<int>(request.subdiv_offsets.size());
  ScheduleBuilder builder(size * num_subdivs);
  for (int subdiv = 0; size > 1 && subdiv < num_subdivs; ++subdiv) {
    AddRing(Ring(request.layout, request.subdiv_offsets[subdiv], request.rank),
            subdiv, num_subdivs, builder);
  }
  auto own = builder.AddLane();
  for (int subdiv = 0; subdiv < num_subdivs; ++subdiv) {
    const int chunk = request.rank * num_subdivs + subdiv;
    own.Copy(Data(chunk), Input(chunk));
  }
  return builder.Build();
}

double CostSeconds(const CostQuery& query) {
  const double size = query.layout.size();
  return TransferSeconds(query.model, size - 1,
                         (size - 1) / size * query.bytes);
}

REGISTER_COLLECTIVE(
    RingGather,
    Scheduled({.traits = {.summary = "blocks go round a ring: fewest bytes, "
                                     "n - 1 steps",
                          .collectives = {CollectiveType::kAllGather},
                          .supports_subdivisions = true,
                          .supports_uneven = true,
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = CostSeconds},
               .plan = Plan,
               .subdivide = DefaultSubdivisions}));

}  // namespace
}  // namespace tutti
