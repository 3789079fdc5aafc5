#include "gpu/passes/gpu_meeting.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace tutti {

absl::Status CheckIsCudaDevice(const CollectiveContext& context) {
  if (dynamic_cast<CudaDevice*>(context.device) != nullptr) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(context.params->instance->impl_details.implementation,
                   " runs on devices that CreateCudaDevices() made; ",
                   context.device->full_name(), " is another one"));
}

std::string WhyNotOnGpu(DType, const MergeOp& merge_op,
                        const FinalOp& final_op) {
  const bool is_merge_op = merge_op.is_custom();
  if (!is_merge_op && !final_op.is_custom()) return "";
  return absl::StrCat("cannot run the ", is_merge_op ? "merge" : "final",
                      " op \"", is_merge_op ? merge_op.name() : final_op.name(),
                      "\", a function of yours, on a GPU");
}

CudaDevice& CudaDeviceOf(const CollectiveContext& context) {
  return static_cast<CudaDevice&>(*context.device);
}

std::byte* OutputOf(const CollectiveContext& context) {
  // The context owns the tensor, but this execution writes its bytes.
  return const_cast<std::byte*>(context.output.data());
}

GpuMembers GpuMeeting::Join(const CollectiveContext& context,
                            StatusCallback done) {
  CudaDevice& device = CudaDeviceOf(context);
  absl::StatusOr<OwnedGpuEvent> ready = device.Mark(device.compute_stream());
  if (!ready.ok()) {
    std::move(done)(ready.status());
    return GpuMembers({});
  }
  {
    MutexLock lock(&mu_);
    ready_[context.rank()] = ready->get();
  }
  return GpuMembers(meeting_.Join(
      context, [ready = *std::move(ready),
                done = std::move(done)](absl::Status status) mutable {
        ready = OwnedGpuEvent();
        std::move(done)(std::move(status));
      }));
}

std::vector<GpuEvent> GpuMeeting::TakeReady() {
  MutexLock lock(&mu_);
  std::vector<GpuEvent> ready;
  for (const auto& [rank, event] : ready_) ready.push_back(event);
  ready_.clear();
  return ready;
}

}  // namespace tutti
