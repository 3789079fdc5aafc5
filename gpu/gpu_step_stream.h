#ifndef TUTTI_GPU_GPU_STEP_STREAM_H_
#define TUTTI_GPU_GPU_STEP_STREAM_H_

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/environment.h"
#include "framework/mutex.h"
#include "framework/status_callback.h"
#include "framework/step_stream.h"
#include "gpu/cuda_device.h"
#include "gpu/gpu_pass_end.h"
#include "gpu/gpu_runtime.h"

namespace tutti {

// A point on a stream of a device. Immutable. The device outlives it.
class GpuFence : public DeviceFence,
                 public std::enable_shared_from_this<GpuFence> {
 public:
  GpuFence(const CudaDevice& device, OwnedGpuEvent event)
      : device_(device), event_(std::move(event)) {}

  const CudaDevice& device() const { return device_; }
  GpuEvent event() const { return event_.get(); }

 private:
  const CudaDevice& device_;
  const OwnedGpuEvent event_;
};

// Steps on a device's collective stream. Kernels read the memory of the devices
// that this one reaches where it is, and what comes from the host out of pinned
// memory. A copy to the host goes on the copy stream, so that kernels do not
// wait for the bus.
//
// Where a GPU is spoilt, on which the stream waits, see GpuPassEnd.
class GpuStepStream : public StepStream {
 public:
  // `end` is on the device's collective stream, which waits for what the steps
  // read first.
  GpuStepStream(CudaDevice& device, Clock& clock,
                std::shared_ptr<GpuPassEnd> end)
      : device_(device), clock_(clock), end_(std::move(end)) {}

  absl::Status Copy(std::byte* into, const std::byte* from,
                    size_t num_bytes) override;
  absl::Status Reduce(const StepReduction& reduction) override;
  absl::StatusOr<std::shared_ptr<const DeviceFence>> Mark() override;
  absl::Status WaitFor(const DeviceFence& fence) override
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status ReadPeer(absl::Span<const std::byte> bytes,
                        const DeviceFence& written, Put put) override;

  // Errors: as PinnedPool::Take().
  absl::Status ReadHost(absl::Span<const std::byte> bytes, Put put) override;
  void CopyToHost(absl::Span<const std::byte> bytes,
                  HostCallback done) override;

  void CallWhenOver(StatusCallback done) override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::Status PutCopyToHost(absl::Span<const std::byte> bytes,
                             std::byte* into);

  CudaDevice& device_;
  Clock& clock_;
  const std::shared_ptr<GpuPassEnd> end_;

  Mutex mu_;
  // The last one of each GPU that the stream waits for.
  std::map<int, std::shared_ptr<const GpuFence>> awaited_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_GPU_GPU_STEP_STREAM_H_
