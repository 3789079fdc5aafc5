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
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpu/kernels/gpu_reduction.h"
#include "gpu/testing/fake_gpu_memory.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"

namespace tutti {

class FakeGpuQueues;

// The calls that a test can make fail.
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
};

// A GpuRuntime without GPUs, for tests.
//
// Streams are queues whose operations run one at a time, never inside the call
// that puts them there, but as work of the environment's queue. Of the streams
// that could go on, the environment's random numbers say which does: where a
// wait for an event is missing, some seed shows it. Memory is that of
// fake_gpu_memory.h, kernels are tutti/reduction.h. An operation that uses
// memory that is not there, past its end, of a GPU to which access is not
// enabled, or of the host where that is not pinned, spoils its GPU and is noted
// as a mistake. So is a call of the runtime inside CallHost(). A wait for an
// event of a GPU that is spoilt, and a copy from its memory, are refused with
// its error and spoil nothing else.
//
// What a test with it does not prove: that device code is right (its loops have
// tests of their own), that a call is one that CUDA accepts, that anything is
// fast or runs at the same time, what a driver does in low memory or after an
// error, and that bytes of pageable host memory are read when CUDA reads them:
// here that is when the stream comes to the copy.
//
// Thread-safe. What is queued is dropped with the runtime; host calls run with
// no lock held. The destructor does not wait for one that runs.
class FakeGpuRuntime : public GpuRuntime {
 public:
  struct Options {
    int num_gpus = 1;

    // What tells its GPUs from those of another runtime, where each has its
    // own.
    int host = 0;
    int64_t memory_bytes = int64_t{1} << 30;  // Of each GPU.

    // Between two GPUs. Null: kNvLink between all.
    std::function<PeerLink(int gpu, int peer)> link;

    // Where a GPU is spoilt, its calls of CallHost() are told by the destructor
    // and not by the first call that returns the error.
    bool keeps_host_work = false;

    // What RecordEvent() does first, with no lock held: an error is what it
    // returns. Null: nothing.
    std::function<absl::Status(GpuStream stream)> on_record;

    // What is pinned on a GPU: for a network that is told its addresses, and
    // takes no memory of the device's pools (FakeGpuMemory).
    bool host_may_touch = false;

    Environment environment;  // Its queue and its random numbers.
  };

  explicit FakeGpuRuntime(Options options);
  ~FakeGpuRuntime() override;
  FakeGpuRuntime(const FakeGpuRuntime&) = delete;
  FakeGpuRuntime& operator=(const FakeGpuRuntime&) = delete;

  // After `num_good` more, `num_bad` calls of this name return `status` and do
  // nothing else.
  void FailCall(GpuCall call, int num_good, absl::Status status,
                int num_bad = 1);

  // How often it was called, whatever became of it.
  int64_t NumCalls(GpuCall call) const;

  // An operation that fails with `status` when the stream comes to it.
  void FailStream(GpuStream stream, absl::Status status);

  // For doubles of libraries that put work of their own on streams: what uses
  // memory there, with a lock held, and what the stream goes past once it is
  // true. Who makes it true calls what Waker() returned, on any thread; that
  // may outlive the runtime.
  using Operation = absl::AnyInvocable<absl::Status(FakeGpuMemory& memory) &&>;
  absl::Status Put(GpuStream stream, Operation operation);
  absl::Status PutGate(GpuStream stream,
                       std::shared_ptr<const std::atomic<bool>> gate);
  std::function<void()> Waker() const;

  // What was done wrong, whether or not it changed a result.
  std::vector<std::string> Mistakes() const;

  // What was made and not destroyed or freed. Memory counts until its stream
  // has come to the end of it.
  std::vector<std::string> Leaks() const;

  int64_t UsedBytes(int gpu) const;

  // Of those that were made, how many are not destroyed.
  int NumEvents() const;

  // The bytes of memory of a GPU, at this moment. Errors: as of an operation
  // that uses them.
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
  absl::Status CopyAsync(void* to, const void* from, size_t num_bytes,
                         GpuStream stream) override;
  absl::Status CallHost(StatusCallback call, GpuStream stream) override;
  absl::Status LaunchReduce(const GpuReduction& reduction,
                            GpuStream stream) override;
  absl::Status LaunchCopy(const GpuCopy& copy, GpuStream stream) override;

 private:
  class Peers;

  // Memory that has not begun. Errors: RESOURCE_EXHAUSTED, for `call`.
  absl::StatusOr<void*> Reserve(const char* call, int gpu, size_t num_bytes);

  const Options options_;
  const std::shared_ptr<FakeGpuQueues> queues_;
  const std::unique_ptr<Peers> peers_;
};

}  // namespace tutti

#endif  // TUTTI_GPU_TESTING_FAKE_GPU_RUNTIME_H_
