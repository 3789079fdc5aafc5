#ifndef TUTTI_GPU_DEVICES_H_
#define TUTTI_GPU_DEVICES_H_

// GPU devices: makes devices on the GPUs of this host, over CUDA and, where
// it is there, NCCL, with their streams for kernels of the caller. Libraries
// of their own; includes no header of CUDA or NCCL. Calls put work on
// streams and do not wait for the GPU.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/tensor.h"

namespace tutti {

struct GpuCopy;
struct GpuReduction;

struct GpuProperties {
  std::string name;    // "NVIDIA H100 80GB HBM3".
  std::string bus_id;  // "0000:1B:00.0": tells one GPU from another of a host.
  std::string uuid;    // Of all GPUs anywhere; the same in all processes.
  int num_multiprocessors = 0;
  int64_t memory_bytes = 0;
};

// How one GPU reaches the memory of another.
enum class PeerLink {
  kNone,    // Not at all: copies go through the host.
  kBus,     // Directly, over PCI.
  kNvLink,  // Directly, with atomics.
};

// Handles, which only their runtime looks into.
struct GpuStream {
  int gpu = 0;
  void* handle = nullptr;

  friend bool operator==(const GpuStream&, const GpuStream&) = default;
};
struct GpuEvent {
  int gpu = 0;
  void* handle = nullptr;
};

// Memory that stays where it is. The host's, which GPUs copy from and to
// without the processor; any GPU may. Or the GPU's own, which others write to
// past its streams, such as a network. It can be made and freed as long as its
// GPU is not spoilt.
struct PinnedMemory {
  int gpu = 0;
  void* data = nullptr;
  bool is_on_gpu = false;
};

// What we use of a GPU runtime: so little that tests have a double of it
// (fake_gpu_runtime.h). CUDA's is cuda_runtime.h.
//
// A stream is a queue on a GPU: what is put there runs in order, and in no
// order with other streams but for events. Calls that take a stream put
// something there and return; the buffers stay valid until it has run. GPUs are
// numbered from 0.
//
// Thread-safe; a call leaves the thread's current GPU as it was. Errors name
// the call, the GPU and what the runtime says: UNAVAILABLE if there is no
// driver, RESOURCE_EXHAUSTED for lack of memory, INVALID_ARGUMENT for what the
// caller got wrong, else INTERNAL. An operation that fails when it runs spoils
// its GPU for this process: what was put there does not run, and later calls
// return the error. So may calls for other GPUs that name its events or its
// memory, but these GPUs stay good.
//
// The destructor returns when no thread is inside a call of CallHost() any
// more, so that what these use, such as an environment's queue, need only
// outlive the runtime. It must not run inside such a call.
class GpuRuntime {
 public:
  virtual ~GpuRuntime() = default;

  // 0 if there is a driver and no GPU.
  virtual absl::StatusOr<int> NumGpus() = 0;

  virtual absl::StatusOr<GpuProperties> Properties(int gpu) = 0;

  // Of a GPU with itself: kNvLink.
  virtual absl::StatusOr<PeerLink> LinkBetween(int gpu, int peer) = 0;

  // From now on kernels on `gpu` may use the memory of `peer`. May be called
  // again. Errors: FAILED_PRECONDITION if there is no link,
  // OUT_OF_RANGE if the GPU has as many peers as it can.
  virtual absl::Status EnablePeerAccess(int gpu, int peer) = 0;

  // Does not wait for other streams, not even for the legacy default one.
  virtual absl::StatusOr<GpuStream> CreateStream(int gpu) = 0;

  // Does not wait: the stream ends when all that was put there has run.
  virtual absl::Status DestroyStream(GpuStream stream) = 0;

  // Without a time. It may be one that was destroyed.
  virtual absl::StatusOr<GpuEvent> CreateEvent(int gpu) = 0;
  virtual absl::Status DestroyEvent(GpuEvent event) = 0;

  // The event is done when all that the stream holds now has run. Takes the
  // place of an earlier record. REQUIRES: both are of the same GPU.
  virtual absl::Status RecordEvent(GpuEvent event, GpuStream stream) = 0;

  // OK unless a call for the GPU has found it spoilt: then that error. Asks no
  // driver.
  virtual absl::Status FirstError(int gpu) = 0;

  // Whether the last record is done; of an event that has had none, either.
  // Where the GPU is spoilt, its error, which FirstError() returns from then
  // on; after another error it may be asked again.
  virtual absl::StatusOr<bool> IsDone(GpuEvent event) = 0;

  // What is put on the stream from now on runs after the event's last record
  // is done. Later records do not matter. Any two GPUs. REQUIRES: there was a
  // record.
  virtual absl::Status WaitForEvent(GpuStream stream, GpuEvent event) = 0;

  // Memory of the stream's GPU, uninitialised, aligned to 256 bytes. It is
  // there when the stream comes to it, so other streams have to wait for that.
  // REQUIRES: num_bytes > 0.
  virtual absl::StatusOr<void*> AllocateAsync(size_t num_bytes,
                                              GpuStream stream) = 0;

  // It is gone when the stream comes to it. REQUIRES: memory of
  // AllocateAsync().
  virtual absl::Status FreeAsync(void* memory, GpuStream stream) = 0;

  // All three may wait for the GPUs. The memory is there at once.
  virtual absl::StatusOr<PinnedMemory> AllocatePinned(size_t num_bytes,
                                                      int gpu) = 0;
  virtual absl::StatusOr<PinnedMemory> AllocatePinnedOnGpu(size_t num_bytes,
                                                           int gpu) = 0;
  virtual absl::Status FreePinned(PinnedMemory memory) = 0;

  // Between any two of: memory of any GPU, pinned memory, other host memory.
  // With other host memory the call may wait until the bytes are copied. GPUs
  // need no link and no access to each other.
  virtual absl::Status CopyAsync(void* to, const void* from, size_t num_bytes,
                                 GpuStream stream) = 0;

  // Calls `call` once. With OK on a thread of the runtime, when the stream
  // comes to it; the stream goes on when it returns. With an error if this
  // returns that, or if the GPU is spoilt before: inside the first call of the
  // runtime that returns the GPU's error, at the latest in the destructor. So a
  // GPU that fails is noticed by who calls the runtime, such as IsDone().
  // `call` must not call the runtime or wait.
  virtual absl::Status CallHost(StatusCallback call, GpuStream stream) = 0;

  // A kernel on the stream's GPU. Errors: as CheckReduction(), CheckCopy().
  virtual absl::Status LaunchReduce(const GpuReduction& reduction,
                                    GpuStream stream) = 0;
  virtual absl::Status LaunchCopy(const GpuCopy& copy, GpuStream stream) = 0;
};

// Owns a handle. The runtime outlives it.
template <typename Handle, absl::Status (GpuRuntime::*kDestroy)(Handle)>
class GpuOwner {
 public:
  GpuOwner() = default;
  GpuOwner(GpuRuntime* runtime, Handle handle)
      : runtime_(runtime), handle_(handle) {}
  GpuOwner(GpuOwner&& other) noexcept
      : runtime_(std::exchange(other.runtime_, nullptr)),
        handle_(other.handle_) {}
  GpuOwner& operator=(GpuOwner&& other) noexcept {
    std::swap(runtime_, other.runtime_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  // What cannot be destroyed any more is of a GPU that is spoilt.
  ~GpuOwner() {
    if (runtime_ != nullptr) (runtime_->*kDestroy)(handle_).IgnoreError();
  }

  // Nobody destroys the handle any more.
  void Abandon() { runtime_ = nullptr; }

  // REQUIRES: it owns one.
  Handle get() const { return handle_; }
  explicit operator bool() const { return runtime_ != nullptr; }

 private:
  GpuRuntime* runtime_ = nullptr;
  Handle handle_ = {};
};

using OwnedGpuStream = GpuOwner<GpuStream, &GpuRuntime::DestroyStream>;
using OwnedGpuEvent = GpuOwner<GpuEvent, &GpuRuntime::DestroyEvent>;
using OwnedPinnedMemory = GpuOwner<PinnedMemory, &GpuRuntime::FreePinned>;

// As the calls of these names, with an owner.
absl::StatusOr<OwnedGpuStream> NewStream(GpuRuntime& runtime, int gpu);
absl::StatusOr<OwnedGpuEvent> NewEvent(GpuRuntime& runtime, int gpu);
absl::StatusOr<OwnedPinnedMemory> NewPinnedMemory(GpuRuntime& runtime,
                                                  size_t num_bytes, int gpu);
absl::StatusOr<OwnedPinnedMemory> NewPinnedMemoryOnGpu(GpuRuntime& runtime,
                                                       size_t num_bytes,
                                                       int gpu);

struct CudaRuntimeOptions {
  // How much freed memory of each GPU is kept for the next allocations, which
  // need not ask the driver then. More is given back to other programs when
  // this one waits for a GPU (cudaStreamSynchronize and the like), which Tutti
  // never does. 1 GiB.
  uint64_t kept_bytes = uint64_t{1} << 30;
};

// GpuRuntime over the CUDA runtime, which is linked in, and the driver: without
// one, every call returns UNAVAILABLE. GPUs before compute capability 8.0 are
// refused as UNIMPLEMENTED.
//
// Each call works in the primary context of its GPU. A thread that had another
// context current has its GPU's primary one afterwards, and one that had none
// that of GPU 0.
std::unique_ptr<GpuRuntime> MakeCudaRuntime(
    const CudaRuntimeOptions& options = {});

class NcclRuntime;

// Whether this was built with NCCL's header.
bool HasNccl();

// NCCL of this machine, opened for good. Errors: UNAVAILABLE with the loader's
// text; FAILED_PRECONDITION for a library that is too old or lacks a function,
// and for an environment in which it cannot serve; UNIMPLEMENTED if !HasNccl().
absl::StatusOr<std::shared_ptr<NcclRuntime>> NcclHere();

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

class NcclRuntime;

struct CudaDevicesOptions {
  // Outlives the devices and their tensors, and, where a transport uses memory
  // of the GPUs, whoever may do so still when they have gone: MpiRuntime.
  GpuRuntime* runtime = nullptr;
  Environment environment;

  // The task that the devices are of.
  std::string job = "localhost";
  int replica = 0;
  int task = 0;

  // Of all devices (DeviceAttributes): that of the process in a cluster
  // (ClusterRuntime::DeviceFactory). Nothing: a random one each.
  std::optional<uint64_t> incarnation;

  // Devices on each GPU: more than one to try groups on a single GPU.
  int devices_per_gpu = 1;

  // Bound of each device on memory freed ahead: see CudaDevice. 256 MiB: some
  // steps' temporaries of a large model, 0.3 % of an H100.
  int64_t freed_ahead_bytes = int64_t{256} << 20;

  // Pinned memory that the devices of a GPU share and keep unused, at most, for
  // each GPU.
  size_t kept_staging_bytes = size_t{256} << 20;

  // Whether a transport that can (MpiRuntime::is_cuda_aware()) reads and writes
  // memory of the GPUs itself: landings of AllocatePinnedOnGpu(), not tensors.
  // Not set: where there is one GPU, because Open MPI works with a single one
  // in a process.
  std::optional<bool> opens_memory;

  // Of these landings on each GPU: so much is given out at a time at most, and
  // kept for the next time. A step for which not enough is left, or that is
  // larger, passes through the host as a whole.
  size_t most_landing_bytes = size_t{256} << 20;

  // For the collectives of NCCL, which need one device per GPU: opened by
  // NcclHere(). Null: the devices do not have them.
  std::shared_ptr<NcclRuntime> nccl;
};

// Devices GPU:0, GPU:1, ... of a task: `devices_per_gpu` on each GPU of this
// host, those of one GPU next to each other. Kernels on each may use the memory
// of those that it has a link to: of strength 3 on the same GPU, 2 over NVLink,
// 1 over PCI. Those beyond what CUDA allows a GPU, eight others in some hosts,
// count as without a link.
//
// Errors: INVALID_ARGUMENT for a count below one or a part that is missing;
// NOT_FOUND if there is no GPU; as GpuRuntime, where there is no driver.
absl::StatusOr<std::vector<std::unique_ptr<CudaDevice>>> CreateCudaDevices(
    const CudaDevicesOptions& options);

}  // namespace tutti

#endif  // TUTTI_GPU_DEVICES_H_
