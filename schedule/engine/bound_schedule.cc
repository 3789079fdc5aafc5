#include "schedule/engine/bound_schedule.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

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
    scratch_offsets_.push_back(scratch_bytes_);
    const size_t bytes = BytesOf(slot);
    scratch_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  GroupResources* const resources = params.group->resources.get();
  if (resources != nullptr && scratch_bytes_ > ScratchPool::kFewBytes) {
    scratch_pool_ = resources->GetOrCreate<ScratchPool>();
  }
}

size_t BoundSchedule::BytesOf(const Slot& slot) const {
  return static_cast<size_t>(chunks_.RangeOf(slot).size) * SizeOf(dtype_);
}

size_t BoundSchedule::ScratchOffset(const Slot& slot) const {
  const std::vector<Slot>& scratch = schedule_->scratch();
  const auto after = std::upper_bound(
      scratch.begin(), scratch.end(), slot, [](const Slot& a, const Slot& b) {
        return std::tie(a.bank, a.chunk) < std::tie(b.bank, b.chunk);
      });
  const Slot& range = *(after - 1);
  const size_t offset =
      scratch_offsets_[static_cast<size_t>(after - scratch.begin()) - 1];
  if (range.chunk == slot.chunk) return offset;
  return offset +
         BytesOf(Scratch(range.chunk, range.bank, slot.chunk - range.chunk));
}

}  // namespace tutti
