#include "implementations/direct_reduce_scatter.h"
#include "implementations/parts/cost.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// Every rank sends its buffer to the root, which reduces all in one pass, in
// rank order.
//
//   rank 0 --.
//   rank 1 --+--> root: 0 + 1 + 2 + 3
//   rank 3 --'
//
// Takes one round. The root receives n - 1 buffers at once, and sets them
// aside: for few ranks, small buffers, and averages of integers.
Schedule Plan(const PlanRequest& request) {
  ScheduleBuilder builder(/*num_chunks=*/1);
  if (request.rank == request.root) {
    AddReduction(request, /*chunk=*/0, /*tag=*/0, builder);
  } else {
    builder.AddLane().Send(request.root, /*tag=*/0, Input(0));
  }
  return builder.Build();
}

// With two ranks, the other rank's buffer is reduced as it arrives.
double CostSeconds(const CostQuery& query) {
  Traffic traffic = FromRootTraffic(query);
  const int size = query.layout.size();
  const int inside = SpansProcesses(query) ? LargestTask(query.layout) : size;
  if (size > 2) traffic.SetAside(inside - 1, size - inside);
  return traffic.Seconds(query.model, static_cast<double>(query.bytes));
}

REGISTER_COLLECTIVE(
    DirectReduceToRoot,
    Scheduled({.traits = {.summary = "every buffer goes straight to the root, "
                                     "who reduces all in one pass, in rank "
                                     "order: one round",
                          .collectives = {CollectiveType::kReduce},
                          .preserves_rank_order = true,
                          .reduces_at_once = true,
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = CostSeconds},
               .plan = Plan}));

}  // namespace
}  // namespace tutti
