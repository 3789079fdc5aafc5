#ifndef TUTTI_GPU_GPU_RUNTIME_H_
#define TUTTI_GPU_GPU_RUNTIME_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/status_callback.h"

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

}  // namespace tutti

#endif  // TUTTI_GPU_GPU_RUNTIME_H_
