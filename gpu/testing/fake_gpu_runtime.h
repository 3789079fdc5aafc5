#ifndef TUTTI_GPU_TESTING_FAKE_GPU_RUNTIME_H_
#define TUTTI_GPU_TESTING_FAKE_GPU_RUNTIME_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpu/kernels/gpu_reduction.h"
#include "gpu/testing/fake_gpu_memory.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"

namespace tutti {

class FakeGpuQueues;

// Calls that a test can make fail.
enum class GpuCall {
  kCreateStream,
  kCreateEvent,
  kRecordEvent,
  kWaitForEvent,
  kAllocateAsync,
  kFreeAsync,
  kAllocatePinned,
  kAllocatePinnedOnGpu,
  kCopyAsync,
  kCallHost,
  kLaunchReduce,
  kLaunchCopy,
  kEnablePeerAccess,
  kIsDone,
  kProperties,
  kLinkBetween,
  kPut,
  kPutGate,
  kOwnerOf,
  kCallOn,
};

// A GpuRuntime without GPUs, for tests.
//
// Streams are queues. Their operations run one at a time, as work of the
// environment's queue, never inside the call that adds them. The environment's
// random numbers choose among the runnable streams: some seed reveals a missing
// wait for an event. Memory is that of fake_gpu_memory.h, kernels are
// tutti/reduction.h.
//
// An operation spoils its GPU and counts as a mistake if it uses memory
// wrongly: missing memory, memory past its end, memory of a GPU without enabled
// access, or unpinned host memory. A call of the runtime inside CallHost() also
// counts as a mistake. A wait for an event of a spoilt GPU fails with its
// error, and so does a copy from its memory. Neither spoils another GPU.
//
// Tests with it do not prove:
// - that device code is right (its loops have separate tests);
// - that CUDA accepts a call;
// - that anything is fast, or runs at the same time;
// - what a driver does in low memory or after an error;
// - that pageable host memory is read when CUDA reads it: here, it is read when
//   the stream reaches the copy.
//
// Thread-safe. The runtime's end drops queued operations. Host calls run with
// no lock held. The destructor does not wait for a running host call.
class FakeGpuRuntime : public GpuRuntime {
 public:
  struct Options {
    int num_gpus = 1;

    // Host of the GPUs. Runtimes with different hosts have different GPUs.
    int host = 0;
    int64_t memory_bytes = int64_t{1} << 30;  // Per GPU.

    // Link between two GPUs. Null: kNvLink between all.
    std::function<PeerLink(int gpu, int peer)> link;

    // If true, the destructor fails the host calls of a spoilt GPU, not the
    // first call that returns the error.
    bool keeps_host_work = false;

    // Runs first in RecordEvent(), with no lock held; its error becomes the
    // result. Null: none.
    std::function<absl::Status(GpuStream stream)> on_record;

    // If true, the host may touch memory pinned on a GPU, like a network that
    // knows its addresses. Such memory does not count for the device's pools
    // (FakeGpuMemory).
    bool host_may_touch = false;

    Environment environment;  // Its queue and random numbers.
  };

  explicit FakeGpuRuntime(Options options);
  ~FakeGpuRuntime() override;
  FakeGpuRuntime(const FakeGpuRuntime&) = delete;
  FakeGpuRuntime& operator=(const FakeGpuRuntime&) = delete;

  // Lets `num_good` more calls of this kind pass. The `num_bad` calls after
  // them return `status` and do nothing else.
  void FailCall(GpuCall call, int num_good, absl::Status status,
                int num_bad = 1);

  // Counts all calls of this kind, also failed ones.
  int64_t NumCalls(GpuCall call) const;

  // Puts an operation on the stream that fails with `status`.
  void FailStream(GpuStream stream, absl::Status status);

  // For doubles of libraries that put work on streams. Put() adds an operation,
  // which runs with a lock held. PutGate() stops the stream until the gate is
  // true. The thread that opens the gate then calls the result of Waker(),
  // which may outlive the runtime.
  using Operation = absl::AnyInvocable<absl::Status(FakeGpuMemory& memory) &&>;
  absl::Status Put(GpuStream stream, Operation operation);
  absl::Status PutGate(GpuStream stream,
                       std::shared_ptr<const std::atomic<bool>> gate);
  std::function<void()> Waker() const;

  // Wrong uses, whether or not they changed a result.
  std::vector<std::string> Mistakes() const;

  // Objects and memory that were not destroyed or freed. Memory counts until
  // its stream reaches the free.
  std::vector<std::string> Leaks() const;

  int64_t UsedBytes(int gpu) const;

  // Number of events that are not destroyed.
  int NumEvents() const;

  // Returns the present bytes of GPU memory. Errors: as an operation that uses
  // the bytes.
  absl::StatusOr<std::vector<uint8_t>> Read(const void* memory,
                                            size_t num_bytes) const;

  absl::StatusOr<int> NumGpus() override;
  absl::StatusOr<GpuProperties> Properties(int gpu) override;
  absl::StatusOr<PeerLink> LinkBetween(int gpu, int peer) override;
  absl::Status EnablePeerAccess(int gpu, int peer) override;
  absl::StatusOr<GpuStream> CreateStream(int gpu) override;
  absl::Status DestroyStream(GpuStream stream) override;
  absl::StatusOr<GpuEvent> CreateEvent(int gpu) override;
  absl::Status DestroyEvent(GpuEvent event) override;
  absl::Status RecordEvent(GpuEvent event, GpuStream stream) override;
  absl::Status FirstError(int gpu) override;
  absl::StatusOr<bool> IsDone(GpuEvent event) override;
  absl::Status WaitForEvent(GpuStream stream, GpuEvent event) override;
  absl::StatusOr<void*> AllocateAsync(size_t num_bytes,
                                      GpuStream stream) override;
  absl::Status FreeAsync(void* memory, GpuStream stream) override;
  absl::StatusOr<PinnedMemory> AllocatePinned(size_t num_bytes,
                                              int gpu) override;
  absl::StatusOr<PinnedMemory> AllocatePinnedOnGpu(size_t num_bytes,
                                                   int gpu) override;
  absl::Status FreePinned(PinnedMemory memory) override;
  absl::StatusOr<int> OwnerOf(const void* memory, int gpu) override;
  absl::Status CallOn(int gpu,
                      absl::FunctionRef<absl::Status()> launch) override;
  absl::Status CopyAsync(void* to, const void* from, size_t num_bytes,
                         GpuStream stream) override;
  absl::Status CallHost(StatusCallback call, GpuStream stream) override;
  absl::Status LaunchReduce(const GpuReduction& reduction,
                            GpuStream stream) override;
  absl::Status LaunchCopy(const GpuCopy& copy, GpuStream stream) override;

 private:
  class Peers;

  // Begins a call for `gpu`. Errors: as FakeGpuQueues::Begin().
  absl::Status Begin(GpuCall call, int gpu) const;

  // Reserves memory. Errors: RESOURCE_EXHAUSTED, naming `call`.
  absl::StatusOr<void*> Reserve(GpuCall call, int gpu, size_t num_bytes);

  const Options options_;
  const std::shared_ptr<FakeGpuQueues> queues_;
  const std::unique_ptr<Peers> peers_;
};

}  // namespace tutti

#endif  // TUTTI_GPU_TESTING_FAKE_GPU_RUNTIME_H_
