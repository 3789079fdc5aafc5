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

// An event of each GPU that something waits for, by its number.
using GpuEvents = std::map<int, std::shared_ptr<const OwnedGpuEvent>>;

// A point on a stream of a device. Immutable. The device outlives it.
class GpuFence : public DeviceFence {
 public:
  // `awaited`: for what the stream itself waits before that point.
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

// Pinned memory of a GPU or of the host that steps read or write, given back to
// its pool when nobody has it any more.
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

// Steps on a device's collective stream. Kernels read the memory of the devices
// that this one reaches where it is, and what comes from the host out of pinned
// memory. A copy to the host goes on the copy stream, so that kernels do not
// wait for the bus.
//
// Whatever GPU is spoilt for which the stream waits, directly or by way of
// others, ends it with that GPU's error (GpuPassEnd).
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
  absl::Status ReadHost(absl::Span<const std::byte> bytes, Put put) override
      ABSL_LOCKS_EXCLUDED(mu_);

  bool opens_memory() const override { return device_.landing() != nullptr; }

  // Null also where the GPU has no more memory, or too much of it is with
  // others or still to be read: the host's will do.
  std::shared_ptr<DeviceLanding> Land(size_t num_bytes) override
      ABSL_LOCKS_EXCLUDED(mu_);

  absl::Status ReadLanding(std::shared_ptr<DeviceLanding> landing,
                           Put put) override ABSL_LOCKS_EXCLUDED(mu_);

  void CallWhenWritten(StatusCallback done) override ABSL_LOCKS_EXCLUDED(mu_);
  void CopyToHost(absl::Span<const std::byte> bytes,
                  HostCallback done) override;

  void CallWhenOver(StatusCallback done) override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // A buffer, and what is done when it has been read. Null: at the end.
  struct Read {
    std::shared_ptr<const OwnedGpuEvent> over;
    std::shared_ptr<GpuLanding> buffer;
  };

  absl::Status PutCopyToHost(absl::Span<const std::byte> bytes,
                             std::byte* into);

  absl::Status PutRead(std::shared_ptr<GpuLanding> buffer, Put put)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Gives back the buffers that have been read.
  void Reclaim() ABSL_LOCKS_EXCLUDED(mu_);
  GpuEvents Awaited() const ABSL_LOCKS_EXCLUDED(mu_);

  CudaDevice& device_;
  Clock& clock_;
  const std::shared_ptr<GpuPassEnd> end_;

  mutable Mutex mu_;
  GpuEvents awaited_ ABSL_GUARDED_BY(mu_);
  std::deque<Read> reads_ ABSL_GUARDED_BY(mu_);

  // For which the stream was to wait and does not.
  std::vector<std::shared_ptr<const OwnedGpuEvent>> missed_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_GPU_DEVICE_GPU_STEP_STREAM_H_
