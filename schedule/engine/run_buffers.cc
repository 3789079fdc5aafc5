#include "schedule/engine/run_buffers.h"

#include <utility>

#include "framework/base/status_macros.h"
#include "tutti/device.h"

namespace tutti {

absl::Status RunBuffers::Open(const CollectiveContext& context,
                              bool is_on_host) {
  context_ = &context;
  is_on_host_ = is_on_host;
  if (bound_.scratch_bytes() == 0 || scratch_.is_set()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(scratch_, TakeScratch(bound_.scratch_bytes()));
  return absl::OkStatus();
}

absl::StatusOr<Tensor> RunBuffers::TakeScratch(size_t num_bytes) {
  Device& device = *context_->device;
  if (KeepsScratchInPool()) {
    return bound_.scratch_pool()->Take(context_->rank(), device, num_bytes);
  }
  const TensorShape shape =
      TensorShape::Vector(static_cast<int64_t>(num_bytes));
  return IsBarrier(*context_) ? Tensor::Allocate(DType::kUint8, shape)
                              : device.Allocate(DType::kUint8, shape);
}

void RunBuffers::Close(bool is_on_stream) {
  const bool stays = KeepsScratch(bound_) && !is_on_stream;
  if (stays || !scratch_.is_set()) return;
  if (KeepsScratchInPool()) {
    bound_.scratch_pool()->Give(context_->rank(), std::move(scratch_));
  }
  scratch_ = Tensor();
}

}  // namespace tutti
