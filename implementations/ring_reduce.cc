#include "implementations/cost.h"
#include "implementations/subdivision.h"
#include "schedule/algorithm.h"
#include "schedule/schedule_builder.h"

namespace tutti {
namespace {

// All ranks stand in a ring, and the buffer is cut into one chunk per rank.
//
//   rank 0 --> rank 1 --> rank 2 --> rank 3 --.    In each step everyone sends
//     ^---------------------------------------'    one chunk to the next rank.
//
// First each chunk goes once round from the rank after its owner to its owner,
// and everyone adds their part: n - 1 steps. Then the owner's sum goes round:
// n - 1 steps. Every rank sends 2 (n - 1) / n of the buffer, the least
// possible. (P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms
// for clusters of workstations", J. Parallel Distrib. Comput. 69, 2009.)
//
// With several subdivisions each ring does so with its share of the buffer.
void AddRing(const Ring& ring, int subdiv, ScheduleBuilder& builder) {
  const auto chunk_of = [&](int places_before) {
    return subdiv * ring.size() + ring.Before(places_before);
  };
  const int rounds = ring.size() - 1;
  int tag = subdiv * 2 * rounds;
  auto sends = builder.AddLane();
  auto receives = builder.AddLane();
  StepRef arrived;
  for (int round = 0; round < rounds; ++round, ++tag) {
    const int sent = chunk_of(round + 1);
    const int summed = chunk_of(round + 2);
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
    sends.Send(ring.next(), tag, Data(chunk_of(round)), arrived);
    arrived = receives.Recv(ring.previous(), tag, Data(chunk_of(round + 1)));
  }
}

Schedule Plan(const PlanRequest& request) {
  const int size = request.layout.size();
  if (size == 1) {
    ScheduleBuilder builder(/*num_chunks=*/1);
    builder.AddLane().CopyAndFinish(Data(0), Input(0));
    return builder.Build();
  }
  const int num_subdivs = static_cast<int>(request.subdiv_offsets.size());
  ScheduleBuilder builder(size * num_subdivs);
  for (int subdiv = 0; subdiv < num_subdivs; ++subdiv) {
    AddRing(Ring(request.layout, request.subdiv_offsets[subdiv], request.rank),
            subdiv, builder);
  }
  return builder.Build();
}

double CostSeconds(const CostQuery& query) {
  const double size = query.layout.size();
  return TransferSeconds(query.model, 2 * (size - 1),
                         2 * (size - 1) / size * query.bytes);
}

REGISTER_COLLECTIVE(
    RingReduce,
    Scheduled({.traits = {.summary = "sums go round a ring, then results do: "
                                     "fewest bytes, 2 (n - 1) steps",
                          .collectives = {CollectiveType::kAllReduce},
                          .supports_subdivisions = true,
                          .determinism = Determinism::kFixedLayout,
                          .cost_seconds = CostSeconds},
               .plan = Plan,
               .subdivide = DefaultSubdivisions}));

}  // namespace
}  // namespace tutti
