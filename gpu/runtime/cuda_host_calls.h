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

// What streams will call the host for. CUDA hands a pointer through and may
// never do so, as on a GPU that failed: here it is a number, which may be
// unknown by then.
//
// Thread-safe. Each call runs once, with no lock held: with OK in Run(), else
// with an error in one of the others. One for the process, never destroyed,
// because threads of the driver call it.
class CudaHostCalls {
 public:
  static CudaHostCalls& Get();

  // What to hand to Run(). `owner` is the runtime of the stream, on `gpu`.
  void* Add(const void* owner, int gpu, StatusCallback call)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Nothing if it has begun to run.
  static void Run(void* call);
  void Fail(void* call, absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);

  // All of the owner that have not begun to run.
  void FailAllOf(const void* owner, int gpu, const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Also those of all GPUs; and returns when none of them is running. Not to be
  // called inside one.
  void EndAllOf(const void* owner, const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Call {
    const void* owner = nullptr;
    int gpu = 0;
    StatusCallback call;
  };

  void End(void* call, absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);

  // One that is of calls_ no more and counts in running_.
  void RunTaken(Call taken, absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);
  void EndWhere(absl::FunctionRef<bool(const Call&)> is_meant,
                const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);

  Mutex mu_;
  CondVar has_returned_;
  uintptr_t last_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<uintptr_t, Call> calls_ ABSL_GUARDED_BY(mu_);

  // How many of an owner's have been taken to be run and not returned.
  absl::flat_hash_map<const void*, int> running_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_GPU_RUNTIME_CUDA_HOST_CALLS_H_
