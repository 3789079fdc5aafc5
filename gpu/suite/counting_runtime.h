#ifndef TUTTI_GPU_SUITE_COUNTING_RUNTIME_H_
#define TUTTI_GPU_SUITE_COUNTING_RUNTIME_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/status_callback.h"
#include "gpu/gpu_reduction.h"
#include "gpu/gpu_runtime.h"

namespace tutti {

// Another runtime, which it counts some calls of. Thread-safe. What was made
// with it ends before it does; the other one outlives it.
class CountingRuntime : public GpuRuntime {
 public:
  explicit CountingRuntime(GpuRuntime& other) : other_(other) {}

  int64_t num_launches() const { return num_launches_; }

  // How often streams were to tell the host that they come somewhere: there is
  // no other way to wait for one.
  int64_t num_host_calls() const { return num_host_calls_; }

  absl::StatusOr<int> NumGpus() override { return other_.NumGpus(); }
  absl::StatusOr<GpuProperties> Properties(int gpu) override {
    return other_.Properties(gpu);
  }
  absl::StatusOr<PeerLink> LinkBetween(int gpu, int peer) override {
    return other_.LinkBetween(gpu, peer);
  }
  absl::Status EnablePeerAccess(int gpu, int peer) override {
    return other_.EnablePeerAccess(gpu, peer);
  }
  absl::StatusOr<GpuStream> CreateStream(int gpu) override {
    return other_.CreateStream(gpu);
  }
  absl::Status DestroyStream(GpuStream stream) override {
    return other_.DestroyStream(stream);
  }
  absl::StatusOr<GpuEvent> CreateEvent(int gpu) override {
    return other_.CreateEvent(gpu);
  }
  absl::Status DestroyEvent(GpuEvent event) override {
    return other_.DestroyEvent(event);
  }
  absl::Status RecordEvent(GpuEvent event, GpuStream stream) override {
    return other_.RecordEvent(event, stream);
  }
  absl::Status FirstError(int gpu) override { return other_.FirstError(gpu); }
  absl::StatusOr<bool> IsDone(GpuEvent event) override {
    return other_.IsDone(event);
  }
  absl::Status WaitForEvent(GpuStream stream, GpuEvent event) override {
    return other_.WaitForEvent(stream, event);
  }
  absl::StatusOr<void*> AllocateAsync(size_t num_bytes,
                                      GpuStream stream) override {
    return other_.AllocateAsync(num_bytes, stream);
  }
  absl::Status FreeAsync(void* memory, GpuStream stream) override {
    return other_.FreeAsync(memory, stream);
  }
  absl::StatusOr<PinnedMemory> AllocatePinned(size_t num_bytes,
                                              int gpu) override {
    return other_.AllocatePinned(num_bytes, gpu);
  }
  absl::StatusOr<PinnedMemory> AllocatePinnedOnGpu(size_t num_bytes,
                                                   int gpu) override {
    return other_.AllocatePinnedOnGpu(num_bytes, gpu);
  }
  absl::Status FreePinned(PinnedMemory memory) override {
    return other_.FreePinned(memory);
  }
  absl::Status CopyAsync(void* to, const void* from, size_t num_bytes,
                         GpuStream stream) override {
    return other_.CopyAsync(to, from, num_bytes, stream);
  }
  absl::Status CallHost(StatusCallback call, GpuStream stream) override {
    ++num_host_calls_;
    return other_.CallHost(std::move(call), stream);
  }
  absl::Status LaunchReduce(const GpuReduction& reduction,
                            GpuStream stream) override {
    ++num_launches_;
    return other_.LaunchReduce(reduction, stream);
  }
  absl::Status LaunchCopy(const GpuCopy& copy, GpuStream stream) override {
    ++num_launches_;
    return other_.LaunchCopy(copy, stream);
  }

 private:
  GpuRuntime& other_;
  std::atomic<int64_t> num_launches_ = 0;
  std::atomic<int64_t> num_host_calls_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_GPU_SUITE_COUNTING_RUNTIME_H_
