#include <algorithm>
#include <vector>

#include "implementations/cost.h"
#include "schedule/algorithm.h"
#include "schedule/schedule_builder.h"

namespace tutti {
namespace {

// Every rank sends its block to the root, which takes some of them at a time.
//
//   rank 0 --.
//   rank 1 --+--> root: 0 1 2 3     Blocks go straight to their places.
//   rank 3 --'
//
// One step for the others, n - 1 for the root, which receives all blocks but
// its own: the bytes are the least possible, and no block is sent twice.
constexpr int kTransfersAtOnce = 8;  // Of a root.

void AddReceives(int root, int size, ScheduleBuilder& builder) {
  std::vector<ScheduleBuilder::LaneBuilder> lanes;
  for (int i = 0; i < std::min(size - 1, kTransfersAtOnce); ++i) {
    lanes.push_back(builder.AddLane());
  }
  for (int i = 0; i + 1 < size; ++i) {
    const int from = (root + 1 + i) % size;
    lanes[i % lanes.size()].Recv(from, /*tag=*/0, Data(from));
  }
}

Schedule Plan(const PlanRequest& request) {
  ScheduleBuilder builder(request.layout.size());
  if (request.rank == request.root) {
    AddReceives(request.root, request.layout.size(), builder);
    builder.AddLane().Copy(Data(request.root), Input(request.root));
  } else {
    builder.AddLane().Send(request.root, /*tag=*/0, Input(request.rank));
  }
  return builder.Build();
}

double CostSeconds(const CostQuery& query) {
  const double size = query.layout.size();
  return TransferSeconds(query.model, size - 1,
                         (size - 1) / size * query.bytes);
}

REGISTER_COLLECTIVE(
    Gather,
    Scheduled({.traits = {.summary = "everyone sends to the root: fewest bytes",
                          .collectives = {CollectiveType::kGather},
                          .supports_uneven = true,
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = CostSeconds},
               .plan = Plan}));

}  // namespace
}  // namespace tutti
