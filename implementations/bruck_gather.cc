#include "implementations/bruck_gather.h"

#include <algorithm>
#include <cstdint>

#include "implementations/parts/shuffle_outline.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// In round k everyone sends all the blocks it has to the rank 2^k places before
// it, and so has twice as many.
//
//   rank      0          1          2          3          4
//   has       0          1          2          3          4
//   k = 0     0 1        1 2        2 3        3 4        4 0
//   k = 1     0 1 2 3    1 2 3 4    2 3 4 0    3 4 0 1    4 0 1 2
//   k = 2     and all get the one that lacks from the rank 4 places after them.
//
// ceil(log2 n) steps for any n. Every rank receives each block but its own
// once, and where blocks are equal sends (n - 1) / n of the output, the least
// possible. Each block is a message of its own, all blocks of a step at once.
// (J. Bruck et al., "Efficient algorithms for all-to-all communications in
// multiport message-passing systems", IEEE Trans. Parallel Distrib. Syst. 8,
// 1997. There a step is one message, and the blocks need to be put in order in
// the end.)
//
// Every block has a lane. One that comes from `distance` places further on
// comes in the round of the highest bit of `distance`.
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

// Most blocks go to distant ranks, so that many leave a process of several
// members, which a ring leaves once.
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
               .outline = BruckGatherOutline}));

}  // namespace
}  // namespace tutti
