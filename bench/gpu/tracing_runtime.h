#ifndef TUTTI_BENCH_GPU_TRACING_RUNTIME_H_
#define TUTTI_BENCH_GPU_TRACING_RUNTIME_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/gpu/gpu_timing.h"
#include "framework/base/mutex.h"
#include "gpu/kernels/gpu_reduction.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// A kernel that was launched.
struct TracedLaunch {
  GpuStream stream;
  absl::Time called, returned;                // On the host.
  std::shared_ptr<const OwnedGpuEvent> over;  // Done once the kernel is.
  int began = 0, ended = 0;                   // Marks, if there is GpuTiming.
};

// Another runtime, some calls of which it writes down. Thread-safe. What was
// made with it ends before it does; the other one, the clock and the timing
// outlive it.
class TracingRuntime : public GpuRuntime {
 public:
  // `timing` may be null.
  TracingRuntime(GpuRuntime& other, Clock& clock, GpuTiming* timing)
      : other_(other), clock_(clock), timing_(timing) {}

  // From now on calls are written down.
  void Begin() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    has_begun_ = true;
  }

  std::vector<TracedLaunch> launches() const ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return launches_;
  }

  // How often streams were to tell the host that they come somewhere: there is
  // no other way to wait for one without blocking.
  int num_host_calls() const ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return num_host_calls_;
  }

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
    {
      MutexLock lock(&mu_);
      if (has_begun_) ++num_host_calls_;
    }
    return other_.CallHost(std::move(call), stream);
  }
  absl::Status LaunchReduce(const GpuReduction& reduction,
                            GpuStream stream) override {
    return Launch(stream,
                  [&] { return other_.LaunchReduce(reduction, stream); });
  }
  absl::Status LaunchCopy(const GpuCopy& copy, GpuStream stream) override {
    return Launch(stream, [&] { return other_.LaunchCopy(copy, stream); });
  }

 private:
  absl::Status Launch(GpuStream stream, absl::FunctionRef<absl::Status()> call)
      ABSL_LOCKS_EXCLUDED(mu_) {
    if (!has_begun()) return call();
    TracedLaunch launch = {.stream = stream};
    absl::Status status = Mark(stream, &launch.began);
    launch.called = clock_.Now();
    if (status.ok()) status = call();
    launch.returned = clock_.Now();
    if (status.ok()) status = Mark(stream, &launch.ended);
    if (!status.ok()) return status;
    auto over = NewEvent(other_, stream.gpu);
    if (!over.ok()) return over.status();
    launch.over = std::make_shared<const OwnedGpuEvent>(*std::move(over));
    status = other_.RecordEvent(launch.over->get(), stream);
    MutexLock lock(&mu_);
    launches_.push_back(std::move(launch));
    return status;
  }

  bool has_begun() const ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return has_begun_;
  }

  // With the lock held, as a timing is of one thread at a time.
  absl::Status Mark(GpuStream stream, int* mark) ABSL_LOCKS_EXCLUDED(mu_) {
    if (timing_ == nullptr) return absl::OkStatus();
    MutexLock lock(&mu_);
    const absl::StatusOr<int> made = timing_->Mark(stream);
    *mark = made.value_or(0);
    return made.status();
  }

  GpuRuntime& other_;
  Clock& clock_;
  GpuTiming* const timing_;

  mutable Mutex mu_;
  bool has_begun_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<TracedLaunch> launches_ ABSL_GUARDED_BY(mu_);
  int num_host_calls_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_TRACING_RUNTIME_H_
