#include <algorithm>
#include <vector>

#include "implementations/cost.h"
#include "schedule/algorithm.h"
#include "schedule/schedule_builder.h"

namespace tutti {
namespace {

// The root sends every rank its block, some of them at a time.
//
//                       .--> rank 0
//   root: 0 1 2 3 ------+--> rank 1     Blocks leave straight from the input.
//                       '--> rank 3
//
// One step for the others, n - 1 for the root, which sends all blocks but its
// own: the bytes are the least possible, and no block is sent twice.
constexpr int kTransfersAtOnce = 8;  // Of a root.

void AddSends(int root, int size, ScheduleBuilder& builder) {
  std::vector<ScheduleBuilder::LaneBuilder> lanes;
  for (int i = 0; i < std::min(size - 1, kTransfersAtOnce); ++i) {
    lanes.push_back(builder.AddLane());
  }
  for (int i = 0; i + 1 < size; ++i) {
    const int to = (root + 1 + i) % size;
    lanes[i % lanes.size()].Send(to, /*tag=*/0, Input(to));
  }
}

Schedule Plan(const PlanRequest& request) {
  ScheduleBuilder builder(request.layout.size());
  if (request.rank == request.root) {
    AddSends(request.root, request.layout.size(), builder);
    builder.AddLane().Copy(Data(request.root), Input(request.root));
  } else {
    builder.AddLane().Recv(request.root, /*tag=*/0, Data(request.rank));
  }
  return builder.Build();
}

double CostSeconds(const CostQuery& query) {
  const double size = query.layout.size();
  return TransferSeconds(query.model, size - 1,
                         (size - 1) / size * query.bytes);
}

REGISTER_COLLECTIVE(
    Scatter,
    Scheduled({.traits = {.summary = "the root sends to everyone: fewest bytes",
                          .collectives = {CollectiveType::kScatter},
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = CostSeconds},
               .plan = Plan}));

}  // namespace
}  // namespace tutti
