#include "schedule/engine/run_stream.h"

#include <utility>

#include "framework/base/status_macros.h"

namespace tutti {

RunStream::RunStream(std::unique_ptr<StepStream> steps, size_t num_ops)
    : steps_(std::move(steps)),
      written_(num_ops),
      on_device_(num_ops),
      on_host_(num_ops) {}

absl::StatusOr<const DeviceFence*> RunStream::PostFence(int32_t index) {
  ASSIGN_OR_RETURN(auto written, steps_->Mark());
  auto& lent = written_[static_cast<size_t>(index)];
  lent = std::move(written);
  MutexLock lock(&mu_);
  ++num_loaned_;
  return lent.get();
}

std::shared_ptr<DeviceLanding> RunStream::LandToSend(
    size_t num_bytes, const PeerAccessInterface& peers) {
  const bool is_direct =
      steps_->opens_memory() && num_bytes >= peers.least_device_bytes();
  return is_direct ? steps_->Land(num_bytes) : nullptr;
}

void RunStream::TakeBack(int32_t index) {
  on_device_[static_cast<size_t>(index)] = nullptr;
  on_host_[static_cast<size_t>(index)] = Tensor();
  auto& lent = written_[static_cast<size_t>(index)];
  if (lent == nullptr) return;
  lent = nullptr;
  MutexLock lock(&mu_);
  --num_loaned_;
}

void RunStream::AddUnmarked(const Delivery& delivery) {
  MutexLock lock(&mu_);
  unmarked_.push_back(delivery);
}

void RunStream::ReleaseUnmarked(const absl::Status& status) {
  std::vector<Delivery> unmarked;
  {
    MutexLock lock(&mu_);
    unmarked.swap(unmarked_);
  }
  for (const Delivery& delivery : unmarked) delivery.Release(status);
}

RunStream::Next RunStream::CountEnd(std::atomic<int32_t>& num_under_way) {
  MutexLock lock(&mu_);
  const int32_t num_others = num_under_way.load(std::memory_order_acquire) - 1;
  if (!is_ending_ && num_others == num_loaned_) {
    is_ending_ = num_others == 0 || !unmarked_.empty();
    if (is_ending_) return Next::kEndStream;
  }
  const bool is_last =
      num_under_way.fetch_sub(1, std::memory_order_acq_rel) == 1;
  return is_last ? Next::kEnd : Next::kWait;
}

}  // namespace tutti
