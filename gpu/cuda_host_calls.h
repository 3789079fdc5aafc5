#ifndef TUTTI_GPU_CUDA_HOST_CALLS_H_
#define TUTTI_GPU_CUDA_HOST_CALLS_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "framework/environment.h"
#include "framework/mutex.h"

namespace tutti {

// The work that streams will call the host for. CUDA hands a pointer through
// and may never do so: here it is a number, which may be unknown by then.
//
// Thread-safe. One for the process, never destroyed, because threads of the
// driver call it.
class CudaHostCalls {
 public:
  static CudaHostCalls& Get();

  // What to hand to Run().
  void* Add(const void* owner, Work work) ABSL_LOCKS_EXCLUDED(mu_);

  // Runs it, unless it was dropped.
  static void Run(void* call);

  // Destroys what has not begun to run.
  void Drop(void* call) ABSL_LOCKS_EXCLUDED(mu_);
  void DropAllOf(const void* owner) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Call {
    const void* owner = nullptr;
    Work work;
  };

  // Null if there is none.
  Work Take(void* call) ABSL_LOCKS_EXCLUDED(mu_);

  Mutex mu_;
  uintptr_t last_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<uintptr_t, Call> calls_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_GPU_CUDA_HOST_CALLS_H_
