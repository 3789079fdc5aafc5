#include "implementations/cost.h"
#include "implementations/subdivision.h"
#include "schedule/algorithm.h"
#include "schedule/schedule_builder.h"

namespace tutti {
namespace {

// All ranks stand in a ring. The sum for a rank starts at the rank after it and
// goes once round; everyone adds their part.
//
//   rank 0 --> rank 1 --> rank 2 --> rank 3 --.    In each step everyone sends
//     ^---------------------------------------'    one block to the next rank.
//
// n - 1 steps; every rank sends (n - 1) / n of its input, the least possible.
// With several subdivisions each block is cut into as many pieces, one for each
// ring. It is the first half of Patarasuk and Yuan's all-reduce (RingReduce).
//
// A partial sum that is on its way needs memory beside the output: two pieces
// in turn, because one is sent while the next is made.
void AddRing(const Ring& ring, int subdiv, int num_subdivs,
             ScheduleBuilder& builder) {
  const auto chunk_of = [&](int places_before) {
    return ring.Before(places_before) * num_subdivs + subdiv;
  };
  const int own = chunk_of(0);
  const auto partial = [own](int round) {
    return Scratch(own, /*bank=*/1 + round % 2);
  };
  const int rounds = ring.size() - 1;
  auto sends = builder.AddLane();
  auto receives = builder.AddLane();
  StepRef arrived;
  StepRef sent;
  for (int round = 0; round < rounds; ++round) {
    const int tag = subdiv * rounds + round;
    const int summed = chunk_of(round + 2);
    // The send before frees the memory that this round's sum goes to.
    receives.Recv(ring.previous(), tag, Scratch(summed),
                  round < 2 ? StepRef{} : sent);
    sent = sends.Send(ring.next(), tag,
                      round == 0 ? Input(chunk_of(1)) : partial(round - 1),
                      arrived);
    arrived =
        round + 1 < rounds
            ? receives.Reduce(partial(round), Scratch(summed), Input(summed))
            : receives.ReduceAndFinish(Data(own), Scratch(own), Input(own));
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
            subdiv, num_subdivs, builder);
  }
  return builder.Build();
}

double CostSeconds(const CostQuery& query) {
  const double size = query.layout.size();
  return TransferSeconds(query.model, size - 1,
                         (size - 1) / size * query.bytes);
}

REGISTER_COLLECTIVE(
    RingReduceScatter,
    Scheduled({.traits = {.summary = "sums go round a ring to their owners: "
                                     "fewest bytes, n - 1 steps",
                          .collectives = {CollectiveType::kReduceScatter},
                          .supports_subdivisions = true,
                          .determinism = Determinism::kFixedLayout,
                          .cost_seconds = CostSeconds},
               .plan = Plan,
               .subdivide = DefaultSubdivisions}));

}  // namespace
}  // namespace tutti
