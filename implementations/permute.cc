#include <algorithm>

#include "implementations/parts/cost.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// Every rank sends its buffer to one rank and receives one.
//
//   permutation 1, 2, 0:   0 -> 1 -> 2 -> 0
//
// Takes one step: every rank sends its buffer once, or copies it if it is its
// own target. In place the buffer is first copied to scratch memory, because
// ranks that send in a circle cannot wait for each other.
Schedule Plan(const PlanRequest& request) {
  ScheduleBuilder builder(/*num_chunks=*/1);
  const int to = request.permutation[request.rank];
  const int from =
      static_cast<int>(std::find(request.permutation.begin(),
                                 request.permutation.end(), request.rank) -
                       request.permutation.begin());
  auto receives = builder.AddLane();
  if (to == request.rank) {
    receives.Copy(Data(0), Input(0));
    return builder.Build();
  }
  auto sends = builder.AddLane();
  StepRef saved;
  if (request.in_place) saved = receives.Copy(Scratch(0), Input(0));
  receives.Recv(from, /*tag=*/0, Data(0));
  sends.Send(to, /*tag=*/0, request.in_place ? Scratch(0) : Input(0), saved);
  return builder.Build();
}

double CostSeconds(const CostQuery& query) {
  const int messages = query.layout.size() > 1 ? 1 : 0;
  Traffic traffic;
  traffic.Add(BothWays(query, LargestTask(query.layout)), messages, messages);
  return traffic.Seconds(query.model, static_cast<double>(query.bytes));
}

REGISTER_COLLECTIVE(
    Permute,
    Scheduled({.traits = {.summary = "everyone sends to their target: one step",
                          .collectives = {CollectiveType::kPermute},
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = CostSeconds},
               .plan = Plan}));

}  // namespace
}  // namespace tutti
