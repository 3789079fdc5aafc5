#ifndef TUTTI_BENCH_GPU_LAUNCH_TRACE_H_
#define TUTTI_BENCH_GPU_LAUNCH_TRACE_H_

#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/mutex.h"
#include "framework/base/status_macros.h"
#include "gpu/kernels/gpu_reduction.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// Record of the launches of a runtime and of the calls of the host that its
// streams make. Thread-safe.
class LaunchTrace {
 public:
  struct Counts {
    int launches = 0;
    int run = 0;         // Launches whose kernels have ended.
    int host_calls = 0;  // No other way leads from a stream to the host.
  };

  // Begins a record, or with null ends it and forgets it. The runtime lives
  // until the end.
  void SetRuntime(GpuRuntime* runtime) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    runtime_ = runtime;
    ends_.clear();
    num_host_calls_ = 0;
  }

  Counts counts() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    Counts counts = {.launches = static_cast<int>(ends_.size()),
                     .host_calls = num_host_calls_};
    for (const OwnedGpuEvent& end : ends_) {
      if (runtime_->IsDone(end.get()).value()) ++counts.run;
    }
    return counts;
  }

  void AddHostCall() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    ++num_host_calls_;
  }

  // Records a launch that returned `status`, and returns that.
  absl::Status Add(absl::Status status, GpuStream stream)
      ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    if (runtime_ == nullptr || !status.ok()) return status;
    ASSIGN_OR_RETURN(OwnedGpuEvent end, NewEvent(*runtime_, stream.gpu));
    ends_.push_back(std::move(end));
    return runtime_->RecordEvent(ends_.back().get(), stream);
  }

 private:
  Mutex mu_;
  GpuRuntime* runtime_ ABSL_GUARDED_BY(mu_) = nullptr;  // Null: no record.
  std::vector<OwnedGpuEvent> ends_ ABSL_GUARDED_BY(mu_);
  int num_host_calls_ ABSL_GUARDED_BY(mu_) = 0;
};

// A runtime whose launches and host calls go into a trace.
template <typename Runtime>
class TracedRuntime : public Runtime {
 public:
  using Runtime::Runtime;

  LaunchTrace& trace() { return trace_; }

  absl::Status CallHost(StatusCallback call, GpuStream stream) override {
    trace_.AddHostCall();
    return Runtime::CallHost(std::move(call), stream);
  }
  absl::Status LaunchReduce(const GpuReduction& reduction,
                            GpuStream stream) override {
    return trace_.Add(Runtime::LaunchReduce(reduction, stream), stream);
  }
  absl::Status LaunchCopy(const GpuCopy& copy, GpuStream stream) override {
    return trace_.Add(Runtime::LaunchCopy(copy, stream), stream);
  }

 private:
  LaunchTrace trace_;
};

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_LAUNCH_TRACE_H_
