#ifndef TUTTI_GPU_RUNTIME_CUDA_HOST_CALLS_H_
#define TUTTI_GPU_RUNTIME_CUDA_HOST_CALLS_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "framework/base/mutex.h"
#include "tutti/environment.h"

namespace tutti {

// Pending calls of the host by streams. CUDA passes a call as a pointer, and
// may never pass it, e.g. after the GPU failed. The pointer is therefore a
// number: its call may have ended before CUDA passes it.
//
// Thread-safe. Each call runs once, with no lock held: with OK in Run(), else
// with an error in another function. The process has one object, never
// destroyed, because threads of the driver use it.
class CudaHostCalls {
 public:
  static CudaHostCalls& Get();

  // Returns the argument for Run(). `owner` is the runtime of the stream, on
  // `gpu`.
  void* Add(const void* owner, int gpu, StatusCallback call)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Run() and Fail() do nothing if the call has begun.
  static void Run(void* call);
  void Fail(void* call, absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);

  // Fails all calls of the owner on `gpu` that have not begun.
  void FailAllOf(const void* owner, int gpu, const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Fails calls on all GPUs, and waits until no call of the owner runs. Must
  // not be called inside such a call.
  void EndAllOf(const void* owner, const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Call {
    const void* owner = nullptr;
    int gpu = 0;
    StatusCallback call;
  };

  void End(void* call, absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);

  // Runs a call that was taken out of calls_ and counted in running_.
  void RunTaken(Call taken, absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);
  void EndWhere(absl::FunctionRef<bool(const Call&)> is_meant,
                const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);

  Mutex mu_;
  CondVar has_returned_;
  uintptr_t last_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<uintptr_t, Call> calls_ ABSL_GUARDED_BY(mu_);

  // Number of calls per owner that have been taken and have not returned.
  absl::flat_hash_map<const void*, int> running_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_GPU_RUNTIME_CUDA_HOST_CALLS_H_
