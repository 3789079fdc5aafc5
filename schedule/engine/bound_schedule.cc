#include "schedule/engine/bound_schedule.h"

#include <memory>
#include <utility>

#include "framework/collective/group_resources.h"
#include "tutti/tensor.h"

namespace tutti {

BoundSchedule::BoundSchedule(std::shared_ptr<const CompiledSchedule> schedule,
                             const CollectiveParams& params)
    : schedule_(std::move(schedule)),
      chunks_(params, schedule_->num_chunks()),
      dtype_(params.instance->type == CollectiveType::kBarrier
                 ? DType::kUint8
                 : params.instance->dtype),
      ranks_(params.group->resources == nullptr
                 ? nullptr
                 : params.group->resources->GetOrCreate<RanksInKeys>()) {
  constexpr size_t kAlignment = Tensor::kAlignmentBytes;
  for (const Slot& slot : schedule_->scratch()) {
    scratch_offsets_[{slot.chunk, slot.bank}] = scratch_bytes_;
    const size_t bytes =
        static_cast<size_t>(chunks_.RangeOf(slot).size) * SizeOf(dtype_);
    scratch_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  GroupResources* const resources = params.group->resources.get();
  if (resources != nullptr && scratch_bytes_ > ScratchPool::kFewBytes) {
    scratch_pool_ = resources->GetOrCreate<ScratchPool>();
  }
}

}  // namespace tutti
