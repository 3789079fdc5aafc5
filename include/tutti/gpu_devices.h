#ifndef TUTTI_GPU_DEVICES_H_
#define TUTTI_GPU_DEVICES_H_

// GPU devices: makes devices on the GPUs of this host, over CUDA and optionally
// NCCL, with streams for kernels of the caller. Separate libraries; includes no
// header of CUDA or NCCL. Calls enqueue work on streams and do not wait for the
// GPU.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
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
  std::string bus_id;  // "0000:1B:00.0": unique within a host.
  std::string uuid;    // Unique everywhere; the same in all processes.
  int num_multiprocessors = 0;
  int64_t memory_bytes = 0;
};

// Way in which one GPU reaches the memory of another.
enum class PeerLink {
  kNone,    // No access: copies go through the host.
  kBus,     // Directly, over PCI.
  kNvLink,  // Directly, with atomics.
};

// Handles that only their runtime interprets.
struct GpuStream {
  int gpu = 0;
  void* handle = nullptr;

  friend bool operator==(const GpuStream&, const GpuStream&) = default;
};
struct GpuEvent {
  int gpu = 0;
  void* handle = nullptr;
};

// Memory with a fixed address. Host memory, which any GPU copies from and to
// without the processor. Or a GPU's memory, which others, such as a network,
// write without its streams. Can be allocated and freed while its GPU is not
// spoilt.
struct PinnedMemory {
  int gpu = 0;
  void* data = nullptr;
  bool is_on_gpu = false;
};

// The calls of a GPU runtime that Tutti uses: few enough that tests have a
// double (fake_gpu_runtime.h). cuda_runtime.h implements them for CUDA.
//
// A stream is a queue on a GPU: its work runs in order. Only events order the
// work of different streams. Calls with a stream enqueue work and return; the
// buffers stay valid until the work has run. GPUs are numbered from 0.
//
// Thread-safe; a call keeps the thread's current GPU. Errors name the call, the
// GPU and the runtime's message: UNAVAILABLE without a driver,
// RESOURCE_EXHAUSTED for lack of memory, INVALID_ARGUMENT for errors of the
// caller, else INTERNAL.
//
// An operation that fails while it runs spoils its GPU for this process:
// enqueued work does not run, and later calls return the error. Calls for other
// GPUs that use its events or memory may also return the error, but those GPUs
// stay good.
//
// The destructor waits until no thread is inside a call of CallHost(). So the
// objects that such calls use, such as an environment's queue, only need to
// outlive the runtime. The destructor must not run inside such a call.
class GpuRuntime {
 public:
  virtual ~GpuRuntime() = default;

  // Number of GPUs; 0 if there is a driver and no GPU.
  virtual absl::StatusOr<int> NumGpus() = 0;

  virtual absl::StatusOr<GpuProperties> Properties(int gpu) = 0;

  // Link between two GPUs; kNvLink from a GPU to itself.
  virtual absl::StatusOr<PeerLink> LinkBetween(int gpu, int peer) = 0;

  // Lets kernels on `gpu` use the memory of `peer`. Idempotent. Errors:
  // FAILED_PRECONDITION if there is no link; OUT_OF_RANGE if the GPU has its
  // maximum number of peers.
  virtual absl::Status EnablePeerAccess(int gpu, int peer) = 0;

  // Creates a stream that waits for no other stream, not even the legacy
  // default one.
  virtual absl::StatusOr<GpuStream> CreateStream(int gpu) = 0;

  // Does not wait: the stream ends when all its work has run.
  virtual absl::Status DestroyStream(GpuStream stream) = 0;

  // Creates an event without timing. May return an event that was destroyed
  // before.
  virtual absl::StatusOr<GpuEvent> CreateEvent(int gpu) = 0;
  virtual absl::Status DestroyEvent(GpuEvent event) = 0;

  // Completes the event when all present work of the stream has run. Replaces
  // an earlier record. REQUIRES: both are of the same GPU.
  virtual absl::Status RecordEvent(GpuEvent event, GpuStream stream) = 0;

  // Returns the error with which a call found the GPU spoilt, else OK. Does not
  // call the driver.
  virtual absl::Status FirstError(int gpu) = 0;

  // True if the last record is complete; any value if there was none. On a
  // spoilt GPU, returns its error; FirstError() then returns it too. After
  // another error, the caller may try again.
  virtual absl::StatusOr<bool> IsDone(GpuEvent event) = 0;

  // Makes later work of the stream run after the event's last record is
  // complete. Later records do not matter. The GPUs may differ. REQUIRES: there
  // was a record.
  virtual absl::Status WaitForEvent(GpuStream stream, GpuEvent event) = 0;

  // Allocates memory of the stream's GPU, uninitialised, aligned to 256 bytes.
  // The memory exists once the stream reaches this point; other streams must
  // wait for that. REQUIRES: num_bytes > 0.
  virtual absl::StatusOr<void*> AllocateAsync(size_t num_bytes,
                                              GpuStream stream) = 0;

  // Frees memory once the stream reaches this point. REQUIRES: memory of
  // AllocateAsync().
  virtual absl::Status FreeAsync(void* memory, GpuStream stream) = 0;

  // Allocate and free pinned memory. All three may wait for the GPUs. Allocated
  // memory exists on return.
  virtual absl::StatusOr<PinnedMemory> AllocatePinned(size_t num_bytes,
                                                      int gpu) = 0;
  virtual absl::StatusOr<PinnedMemory> AllocatePinnedOnGpu(size_t num_bytes,
                                                           int gpu) = 0;
  virtual absl::Status FreePinned(PinnedMemory memory) = 0;

  // Returns the GPU whose memory holds the byte at `memory`, or kHost if the
  // processor may touch the byte. `gpu` is a GPU of this runtime; its context
  // is used.
  static constexpr int kHost = -1;
  virtual absl::StatusOr<int> OwnerOf(const void* memory, int gpu) = 0;

  // Runs `launch` inside this call, with the GPU current for the thread, and
  // returns its status: for launches of the caller.
  virtual absl::Status CallOn(int gpu,
                              absl::FunctionRef<absl::Status()> launch) = 0;

  // Copies between memory of any GPU, pinned memory and other host memory. With
  // other host memory the call may wait until the bytes are copied. The GPUs
  // need no link and no access to each other.
  virtual absl::Status CopyAsync(void* to, const void* from, size_t num_bytes,
                                 GpuStream stream) = 0;

  // Calls `call` once. With OK: on a thread of the runtime, when the stream
  // reaches this point; the stream continues when `call` returns. With an
  // error: if this function returns one, or if the GPU is spoilt before. Then
  // it runs inside the first call of the runtime that returns the GPU's error,
  // or in the destructor. So only calls of the runtime, such as IsDone(),
  // detect a failed GPU. `call` must not call the runtime or wait.
  virtual absl::Status CallHost(StatusCallback call, GpuStream stream) = 0;

  // Launches a kernel on the stream's GPU. Errors: as CheckReduction() and
  // CheckCopy().
  virtual absl::Status LaunchReduce(const GpuReduction& reduction,
                                    GpuStream stream) = 0;
  virtual absl::Status LaunchCopy(const GpuCopy& copy, GpuStream stream) = 0;
};

// Owns a handle. The runtime outlives the owner.
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
  // Destruction fails only for handles of a spoilt GPU.
  ~GpuOwner() {
    if (runtime_ != nullptr) (runtime_->*kDestroy)(handle_).IgnoreError();
  }

  // Gives up ownership without destroying the handle.
  void Abandon() { runtime_ = nullptr; }

  // REQUIRES: the owner is not empty.
  Handle get() const { return handle_; }
  explicit operator bool() const { return runtime_ != nullptr; }

 private:
  GpuRuntime* runtime_ = nullptr;
  Handle handle_ = {};
};

using OwnedGpuStream = GpuOwner<GpuStream, &GpuRuntime::DestroyStream>;
using OwnedGpuEvent = GpuOwner<GpuEvent, &GpuRuntime::DestroyEvent>;
using OwnedPinnedMemory = GpuOwner<PinnedMemory, &GpuRuntime::FreePinned>;

// Functions of GpuRuntime whose results are owned.
absl::StatusOr<OwnedGpuStream> NewStream(GpuRuntime& runtime, int gpu);
absl::StatusOr<OwnedGpuEvent> NewEvent(GpuRuntime& runtime, int gpu);
absl::StatusOr<OwnedPinnedMemory> NewPinnedMemory(GpuRuntime& runtime,
                                                  size_t num_bytes, int gpu);
absl::StatusOr<OwnedPinnedMemory> NewPinnedMemoryOnGpu(GpuRuntime& runtime,
                                                       size_t num_bytes,
                                                       int gpu);

struct CudaRuntimeOptions {
  // Freed memory of each GPU that is kept for later allocations, which then
  // need no call of the driver. CUDA returns memory beyond it when the program
  // waits for a GPU (cudaStreamSynchronize and similar); Tutti never does. 1
  // GiB.
  uint64_t kept_bytes = uint64_t{1} << 30;
};

// Makes a GpuRuntime over the CUDA runtime, which is linked in, and the driver.
// Without a driver, every call returns UNAVAILABLE. GPUs below compute
// capability 8.0 get UNIMPLEMENTED.
//
// Each call works in the primary context of its GPU. A thread with another
// current context ends with its GPU's primary context. A thread without one
// ends with that of GPU 0.
std::unique_ptr<GpuRuntime> MakeCudaRuntime(
    const CudaRuntimeOptions& options = {});

class NcclRuntime;

// True if this was built with NCCL's header.
bool HasNccl();

// Opens NCCL of this machine, for the life of the process. Errors: UNAVAILABLE
// with the loader's message; FAILED_PRECONDITION for a library that is too old
// or lacks a function, and for an environment in which NCCL cannot work;
// UNIMPLEMENTED if !HasNccl().
absl::StatusOr<std::shared_ptr<NcclRuntime>> NcclHere();

class NcclRuntime;
class PinnedPool;

// A GPU, or one of several devices on one GPU, each with separate streams.
//
// Work on a stream runs in order. Only Order() and events order the work of two
// streams. No call waits for the GPU.
//
// The bytes of its tensors are GPU memory: the processor must not touch them.
// The device's streams may use a new tensor at once. Other streams, also
// streams of other devices, first wait for one of the device's streams
// (Order()).
//
// When the last tensor of a buffer is destroyed, its memory is freed once all
// work enqueued before on the device's streams has run. For a use on another
// stream, keep the tensor, or make one of the device's streams wait for that
// use. The last tensor must not be destroyed inside GpuRuntime::CallHost().
//
// An allocation waits for no earlier work, so a new tensor never makes the
// device's streams wait for each other. Freed memory is not reused before the
// end of its use. So there are two exceptions: more than `freed_ahead_bytes`
// were freed since, or the GPU has no other memory. In these cases an
// allocation makes the streams wait for the end of all frees, and so for all
// work enqueued before these. Work on these streams must therefore not wait for
// work that is enqueued later.
//
// Do not capture the device's streams into a graph, because memory is allocated
// and freed in stream order.
//
// Thread-safe. The runtime outlives the device and its tensors. Tensors may
// outlive the device. The environment outlives the runtime.
class CudaDevice : public Device {
 public:
  static constexpr char kType[] = "GPU";  // In the device's name.

  // Strength of the link between two devices on one GPU (DeviceLink).
  static constexpr int kSameGpuStrength = 3;

  // For the library (cuda_device_options.h).
  struct Options;

  // Errors: INVALID_ARGUMENT for another type in the name, a missing part or a
  // negative size; errors of GpuRuntime::CreateStream and Properties.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(Options options);

  // Errors: INVALID_ARGUMENT for a shape whose bytes do not fit 64 bits; errors
  // of GpuRuntime::AllocateAsync, with the request.
  absl::StatusOr<Tensor> Allocate(DType dtype,
                                  const TensorShape& shape) override;

  bool has_host_memory() const override { return false; }

  // Memory of any device on this GPU counts as the device's.
  absl::StatusOr<TensorPlace> PlaceOf(const Tensor& tensor) override;

  // Copies to pinned memory on the copy stream, which first waits for the
  // present work of the compute stream. To overwrite an array before it is
  // free, make the writing stream wait for the copy stream (Order()). The
  // device may be destroyed meanwhile. Errors: also as PinnedPool::Take().
  void CopyToHost(std::vector<Tensor> arrays, ArraysCallback done) override;

  // Returns steps on the collective stream, which first waits for the present
  // work of the compute stream.
  absl::StatusOr<std::unique_ptr<StepStream>> OpenSteps(Clock& clock) override;

  // Returns steps without that wait, for steps that follow others of the same
  // execution.
  absl::StatusOr<std::unique_ptr<StepStream>> OpenStepsInOrder(Clock& clock);

  // True if kernels here may use the memory of `other`: it is on the same GPU,
  // or there is a link.
  bool Reaches(const CudaDevice& other) const;

  int gpu() const;
  GpuRuntime& runtime() const;
  const std::shared_ptr<PinnedPool>& staging() const { return staging_; }
  const std::shared_ptr<PinnedPool>& landing() const { return landing_; }
  const std::shared_ptr<NcclRuntime>& nccl() const { return nccl_; }

  // Streams for kernels of the caller, for collectives, and for copies from and
  // to the host and other devices.
  GpuStream compute_stream() const;
  GpuStream collective_stream() const;
  GpuStream copy_stream() const;

  // Stream for NCCL launches and their dependencies, and nothing else. Kernels
  // of NCCL wait for each other across devices. On another stream, work that
  // they wait for could be enqueued behind them.
  GpuStream nccl_stream() const;

  // Stream on which the host is called after an event of `stream`. A host call
  // on a stream blocks later work of that stream until the host returns. The
  // two collective streams therefore have a separate stream for it; other
  // streams use themselves.
  GpuStream SignalsOf(GpuStream stream) const;

  // Returns an event that completes when all present work of the stream has
  // run. The stream is on this device's GPU.
  absl::StatusOr<OwnedGpuEvent> Mark(GpuStream stream);

  // Makes later work of `second` run after the present work of `first`. `first`
  // is on this device's GPU, `second` on any. Both may be streams of the caller
  // (cudaStream_t as GpuStream::handle).
  absl::Status Order(GpuStream first, GpuStream second);

  // Calls `done` on the environment's queue when the stream reaches this point.
  // If the GPU is spoilt before, calls with its error, once a call of the
  // runtime returned that (GpuRuntime::CallHost); this may be as late as the
  // runtime's end. Also calls `done` if this returns an error.
  absl::Status NotifyWhenDone(GpuStream stream, StatusCallback done);

  // First error of freeing memory. That memory is lost.
  absl::Status free_status() const;

 private:
  class Streams;

  CudaDevice(Options options, std::shared_ptr<Streams> streams);

  const std::shared_ptr<Streams> streams_;  // Shared with tensors.
  const Environment environment_;
  const std::shared_ptr<PinnedPool> staging_;
  const std::shared_ptr<PinnedPool> landing_;
  const std::shared_ptr<NcclRuntime> nccl_;
  const std::shared_ptr<void> nccl_key_;  // Kept for the device's life.
};

class NcclRuntime;

struct CudaDevicesOptions {
  // Outlives the devices and their tensors. Also outlives a transport that uses
  // GPU memory, and may still use it after the devices: MpiRuntime.
  GpuRuntime* runtime = nullptr;
  Environment environment;

  // Task of the devices.
  std::string job = "localhost";
  int replica = 0;
  int task = 0;

  // Incarnation of all devices (DeviceAttributes). In a cluster: the process's
  // incarnation (ClusterRuntime::DeviceFactory). Unset: random for each device.
  std::optional<uint64_t> incarnation;

  // Number of devices on each GPU; more than one to try groups on a single GPU.
  int devices_per_gpu = 1;

  // Bound of each device on memory freed ahead: see CudaDevice. 256 MiB are the
  // temporaries of a few steps of a large model, 0.3 % of an H100.
  int64_t freed_ahead_bytes = int64_t{256} << 20;

  // Largest amount of unused pinned memory that the devices of a GPU keep
  // together.
  size_t kept_staging_bytes = size_t{256} << 20;

  // Allows a capable transport (MpiRuntime::is_cuda_aware()) to read and write
  // GPU memory directly: landings of AllocatePinnedOnGpu(), not tensors. Unset:
  // allowed with one GPU, because Open MPI works with a single GPU in a
  // process.
  std::optional<bool> opens_memory;

  // Largest amount of landings in use on each GPU, which are then kept for
  // reuse. A step that needs more than is left passes through host memory as a
  // whole.
  size_t most_landing_bytes = size_t{256} << 20;

  // NCCL for collectives, which need one device per GPU; see NcclHere(). Null:
  // the devices do not offer NCCL.
  std::shared_ptr<NcclRuntime> nccl;
};

// Creates devices GPU:0, GPU:1, ... of a task: `devices_per_gpu` on each GPU of
// this host, devices of one GPU next to each other. Kernels may use the memory
// of linked devices. Link strengths: 3 on the same GPU, 2 over NVLink, 1 over
// PCI. CUDA limits the number of peers of a GPU (eight on some hosts); GPUs
// beyond the limit count as not linked.
//
// Errors: INVALID_ARGUMENT for a count below one or a missing part; NOT_FOUND
// if there is no GPU; errors of GpuRuntime without a driver.
absl::StatusOr<std::vector<std::unique_ptr<CudaDevice>>> CreateCudaDevices(
    const CudaDevicesOptions& options);

}  // namespace tutti

#endif  // TUTTI_GPU_DEVICES_H_
