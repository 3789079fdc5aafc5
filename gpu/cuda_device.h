#ifndef TUTTI_GPU_CUDA_DEVICE_H_
#define TUTTI_GPU_CUDA_DEVICE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/device.h"
#include "framework/dtype.h"
#include "framework/environment.h"
#include "framework/status_callback.h"
#include "framework/step_stream.h"
#include "framework/tensor.h"
#include "framework/tensor_shape.h"
#include "gpu/gpu_runtime.h"

namespace tutti {

class NcclRuntime;
class PinnedPool;

// A GPU, or one of several devices on one GPU, each with streams of its own.
//
// Work runs on its streams, in the order in which it was put on each; between
// two streams only Order() and events make an order. No call waits for the GPU.
//
// The bytes of its tensors are the GPU's: the processor must not touch them.
// The device's own streams may use a new tensor at once. Other streams, of
// other devices too, first wait for one of them (Order()). When the last tensor
// of a buffer is gone, the memory is freed once all that the device's own
// streams held by then has run; so whoever uses it on other streams keeps the
// tensor, or has one of the device's streams wait for them. It must not go
// inside GpuRuntime::CallHost().
//
// An allocation waits for nothing before it, so that a new tensor does not make
// the device's streams wait for each other; but memory that has not come to its
// end yet is not used again either. So once the device has freed more than
// `freed_ahead_bytes` since, or where the GPU has no other memory, an
// allocation makes the streams wait for the end of all that was freed. Then
// they wait for all that they held when it was freed: work on them must not
// wait for other work that is put there later.
//
// The device's streams must not be captured into a graph, because memory comes
// and goes in their order.
//
// Thread-safe. The runtime outlives it and its tensors, which may outlive it;
// the environment outlives the runtime.
class CudaDevice : public Device {
 public:
  static constexpr char kType[] = "GPU";  // In the device's name.

  // Of the link between two devices on one GPU (DeviceLink).
  static constexpr int kSameGpuStrength = 3;

  // For the library (cuda_device_options.h).
  struct Options;

  // Errors: INVALID_ARGUMENT for another type in the name, a part that is
  // missing or a negative size; as GpuRuntime::CreateStream and Properties.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(Options options);

  // Errors: INVALID_ARGUMENT for a shape that does not fit 64 bits; as
  // GpuRuntime::AllocateAsync, with what was asked for.
  absl::StatusOr<Tensor> Allocate(DType dtype,
                                  const TensorShape& shape) override;

  bool has_host_memory() const override { return false; }

  // Steps run on the collective stream, which first waits for what the compute
  // stream holds now.
  absl::StatusOr<std::unique_ptr<StepStream>> OpenSteps(Clock& clock) override;

  // The same without that wait: for steps that come after others of the
  // execution.
  absl::StatusOr<std::unique_ptr<StepStream>> OpenStepsInOrder(Clock& clock);

  // Whether kernels here may use the memory of `other`: it is on the same GPU,
  // or there is a link.
  bool Reaches(const CudaDevice& other) const;

  int gpu() const;
  GpuRuntime& runtime() const;
  const std::shared_ptr<PinnedPool>& staging() const { return staging_; }
  const std::shared_ptr<PinnedPool>& landing() const { return landing_; }
  const std::shared_ptr<NcclRuntime>& nccl() const { return nccl_; }

  // For kernels of the caller, for collectives, and for copies from and to the
  // host and other devices.
  GpuStream compute_stream() const;
  GpuStream collective_stream() const;
  GpuStream copy_stream() const;

  // For what launches of NCCL need and nothing else: their kernels wait for
  // each other across devices, so on another stream something that they wait
  // for could come to lie behind them.
  GpuStream nccl_stream() const;

  // Where the host is called of what `stream` has done, after an event of it: a
  // call of the host on a stream holds up what lies behind it there until the
  // host has returned. That of another stream than the two for collectives is
  // the stream itself.
  GpuStream SignalsOf(GpuStream stream) const;

  // An event that is done when all that the stream holds now has run. The
  // stream is of this device.
  absl::StatusOr<OwnedGpuEvent> Mark(GpuStream stream);

  // What is put on `second` from now on runs after what `first` holds now.
  // `first` is of this device, `second` of any.
  absl::Status Order(GpuStream first, GpuStream second);

  // Calls `done`, as work of the environment's queue, when the stream comes
  // here. If the GPU is spoilt before: with its error, once a call of the
  // runtime returned that (GpuRuntime::CallHost), which may be no sooner than
  // the runtime's end. Also if this returns an error.
  absl::Status NotifyWhenDone(GpuStream stream, StatusCallback done);

  // The first error of freeing memory: that memory is lost.
  absl::Status free_status() const;

 private:
  class Streams;

  CudaDevice(Options options, std::shared_ptr<Streams> streams);

  const std::shared_ptr<Streams> streams_;  // Tensors hold it too.
  const Environment environment_;
  const std::shared_ptr<PinnedPool> staging_;
  const std::shared_ptr<PinnedPool> landing_;
  const std::shared_ptr<NcclRuntime> nccl_;
  const std::shared_ptr<void> nccl_key_;  // As long as the device lives.
};

}  // namespace tutti

#endif  // TUTTI_GPU_CUDA_DEVICE_H_
