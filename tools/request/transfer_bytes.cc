#include "tools/request/transfer_bytes.h"

#include <memory>

#include "schedule/chunk_map.h"
#include "tutti/params.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// The parts of a resolver's answer that determine the chunks.
CollectiveParams ParamsOf(const Workload& workload) {
  auto group = std::make_shared<CollGroupParams>();
  group->members.resize(workload.group_size);
  auto instance = std::make_shared<CollInstanceParams>();
  instance->type = workload.spec.type;
  instance->dtype = workload.dtype;
  instance->shape = RequestOf(workload, /*rank=*/0).shape;
  instance->root = workload.spec.root;
  CollectiveParams params;
  params.group = std::move(group);
  params.instance = std::move(instance);
  return params;
}

// A barrier's token is one byte.
int64_t ElementBytes(const Workload& workload) {
  const bool is_barrier = workload.spec.type == CollectiveType::kBarrier;
  return is_barrier ? 1 : static_cast<int64_t>(SizeOf(workload.dtype));
}

}  // namespace

std::vector<int64_t> TransferBytes(const GroupPlan& plan,
                                   const Workload& workload) {
  std::vector<int64_t> bytes(plan.num_steps());
  CollectiveParams params = ParamsOf(workload);
  for (int rank = 0; rank < plan.num_ranks(); ++rank) {
    params.default_rank = rank;
    const ChunkMap chunks(params, plan.memory().num_chunks);
    for (int lane = plan.first_lane(rank); lane < plan.first_lane(rank + 1);
         ++lane) {
      const GroupPlan::LaneInfo& info = plan.lane(lane);
      for (int i = 0; i < info.num_steps; ++i) {
        const Step& step = plan.step(info.first_step + i);
        if (!IsTransfer(step)) continue;
        const Slot& slot = step.kind == StepKind::kSend ? step.left : step.into;
        bytes[info.first_step + i] =
            chunks.RangeOf(slot).size * ElementBytes(workload);
      }
    }
  }
  return bytes;
}

}  // namespace tutti
