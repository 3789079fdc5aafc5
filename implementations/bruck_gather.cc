#include "implementations/bruck_gather.h"

#include <algorithm>
#include <cstdint>

#include "implementations/parts/shuffle_outline.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// In round k every rank sends all its blocks to the rank 2^k places before it.
// Each round doubles the number of blocks on each rank.
//
//   rank      0          1          2          3          4
//   has       0          1          2          3          4
//   k = 0     0 1        1 2        2 3        3 4        4 0
//   k = 1     0 1 2 3    1 2 3 4    2 3 4 0    3 4 0 1    4 0 1 2
//   k = 2     all receive the last block from the rank 4 places after them.
//
// ceil(log2 n) steps for any n. Every rank receives each block but its own
// once. If blocks are equal, every rank sends (n - 1) / n of the output, the
// least possible. Each block is a separate message; all blocks of a step are
// sent at once. (J. Bruck et al., "Efficient algorithms for all-to-all
// communications in multiport message-passing systems", IEEE Trans. Parallel
// Distrib. Syst. 8, 1997. In the paper a step is one message, and blocks have
// to be put in order at the end.)
//
// Every block has a lane. A block from `distance` places further arrives in the
// round of the highest bit of `distance`.
void AddBlock(int rank, int distance, int size, ScheduleBuilder& builder) {
  const int block = (rank + distance) % size;
  auto lane = builder.AddLane();
  int stride = 1;
  while (2 * stride <= distance) stride *= 2;
  if (distance > 0) {
    lane.Recv((rank + stride) % size, /*tag=*/block, Data(block));
    stride *= 2;
  }
  for (; stride < size - distance; stride *= 2) {
    lane.Send((rank + size - stride) % size, /*tag=*/block,
              distance == 0 ? Input(block) : Data(block));
  }
}

}  // namespace

Schedule PlanBruckGather(const PlanRequest& request) {
  const int size = request.layout.size();
  ScheduleBuilder builder(size);
  for (int distance = 0; distance < size; ++distance) {
    AddBlock(request.rank, distance, size, builder);
  }
  builder.AddLane().Copy(Data(request.rank), Input(request.rank));
  return builder.Build();
}

// Most blocks go to distant ranks. Many blocks leave a process of several
// members; in a ring each block leaves once.
Traffic BruckGatherTraffic(const CostQuery& query) {
  const int64_t size = query.layout.size();
  Traffic traffic;
  for (int64_t stride = 1; stride < size; stride *= 2) {
    const Crossings crossings = CrossingsOf(query, [&](int rank) {
      return static_cast<int>((rank + size - stride) % size);
    });
    const auto blocks = static_cast<double>(std::min(stride, size - stride));
    traffic.AddAtOnce(crossings, blocks, blocks);
  }
  return traffic;
}

namespace {

double CostSeconds(const CostQuery& query) {
  return BruckGatherTraffic(query).Seconds(query.model, BlockBytes(query));
}

REGISTER_COLLECTIVE(
    BruckGather,
    Scheduled({.traits = {.summary = "all pass on all blocks they have to ever "
                                     "more distant ranks: fewest bytes, log2 n "
                                     "steps",
                          .collectives = {CollectiveType::kAllGather},
                          .supports_uneven = true,
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = CostSeconds},
               .plan = PlanBruckGather,
               .outline = [](const PlanRequest& request) {
                 return ShuffleOutline(request, {.gathers = true});
               }}));

}  // namespace
}  // namespace tutti
