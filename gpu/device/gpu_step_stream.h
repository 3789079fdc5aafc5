#ifndef TUTTI_GPU_DEVICE_GPU_STEP_STREAM_H_
#define TUTTI_GPU_DEVICE_GPU_STEP_STREAM_H_

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "gpu/device/gpu_pass_end.h"
#include "gpu/runtime/pinned_pool.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// Awaited events, by number of the GPU.
using GpuEvents = std::map<int, std::shared_ptr<const OwnedGpuEvent>>;

// A point on a stream of a device. Immutable. The device outlives the fence.
class GpuFence : public DeviceFence {
 public:
  // `awaited` are the events for which the stream waits before that point.
  GpuFence(const CudaDevice& device, OwnedGpuEvent event, GpuEvents awaited)
      : device_(device),
        event_(std::make_shared<const OwnedGpuEvent>(std::move(event))),
        awaited_(std::move(awaited)) {}

  const CudaDevice& device() const { return device_; }
  const std::shared_ptr<const OwnedGpuEvent>& event() const { return event_; }
  const GpuEvents& awaited() const { return awaited_; }

 private:
  const CudaDevice& device_;
  const std::shared_ptr<const OwnedGpuEvent> event_;
  const GpuEvents awaited_;
};

// Pinned memory of a GPU or of the host that steps read or write. Returns to
// its pool with its last owner.
class GpuLanding : public DeviceLanding {
 public:
  GpuLanding(PinnedPool::Buffer buffer, size_t num_bytes)
      : buffer_(std::move(buffer)), num_bytes_(num_bytes) {}

  absl::Span<std::byte> bytes() const override {
    return {buffer_.data(), num_bytes_};
  }

  // See PinnedPool::Buffer.
  void Abandon() { buffer_.Abandon(); }

 private:
  PinnedPool::Buffer buffer_;
  const size_t num_bytes_;
};

// Steps on a device's collective stream. Kernels read the memory of reachable
// devices in place, and bytes of the host from pinned memory. Copies to the
// host run on the copy stream: kernels do not wait for the bus.
//
// A spoilt GPU for which the stream waits, directly or through other GPUs, ends
// the stream with that GPU's error (GpuPassEnd).
class GpuStepStream : public StepStream {
 public:
  // `end` is on the device's collective stream. This stream already waits for
  // the first inputs of the steps.
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
  absl::Status ReadHost(absl::Span<const std::byte> bytes, Put put) override
      ABSL_LOCKS_EXCLUDED(mu_);

  bool opens_memory() const override { return device_.landing() != nullptr; }

  // Returns null also if the GPU has no memory left, or too much of it is
  // posted or unread. The caller then uses host memory.
  std::shared_ptr<DeviceLanding> Land(size_t num_bytes) override
      ABSL_LOCKS_EXCLUDED(mu_);

  absl::Status ReadLanding(std::shared_ptr<DeviceLanding> landing,
                           Put put) override ABSL_LOCKS_EXCLUDED(mu_);

  void CallWhenWritten(StatusCallback done) override ABSL_LOCKS_EXCLUDED(mu_);
  void CopyToHost(absl::Span<const std::byte> bytes,
                  HostCallback done) override;

  void CallWhenOver(StatusCallback done) override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // A buffer, and the event after its last reader. Null: the end of the stream.
  struct Read {
    std::shared_ptr<const OwnedGpuEvent> over;
    std::shared_ptr<GpuLanding> buffer;
  };

  absl::Status PutCopyToHost(absl::Span<const std::byte> bytes,
                             std::byte* into);

  absl::Status PutRead(std::shared_ptr<GpuLanding> buffer, Put put)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the buffers that have been read to their pool.
  void Reclaim() ABSL_LOCKS_EXCLUDED(mu_);
  GpuEvents Awaited() const ABSL_LOCKS_EXCLUDED(mu_);

  CudaDevice& device_;
  Clock& clock_;
  const std::shared_ptr<GpuPassEnd> end_;

  mutable Mutex mu_;
  GpuEvents awaited_ ABSL_GUARDED_BY(mu_);
  std::deque<Read> reads_ ABSL_GUARDED_BY(mu_);

  // Events for which the wait call failed.
  std::vector<std::shared_ptr<const OwnedGpuEvent>> missed_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_GPU_DEVICE_GPU_STEP_STREAM_H_
