#ifndef TUTTI_GPU_NCCL_RUNTIME_NCCL_TURNS_H_
#define TUTTI_GPU_NCCL_RUNTIME_NCCL_TURNS_H_

#include <deque>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "framework/base/mutex.h"

namespace tutti {

// Orders launches: of all communicators that share a GPU of this process, one
// at a time has the turn. Kernels of a launch wait for each other across GPUs.
// Two launches that reached two GPUs in different orders would wait for ever.
//
// Communicators without a common GPU do not wait for each other: a launch may
// wait for its counterpart in other processes, which may have other launches
// before it.
//
// Thread-safe. Callbacks run with no lock held.
class NcclTurns {
 public:
  using Begin = absl::AnyInvocable<void() &&>;

  // Calls `begin` once, when no earlier caller has or awaits a turn with one of
  // `gpus`. `begin` runs inside this call, or where another turn ends or
  // leaves. GiveBack() must follow. REQUIRES: `who` neither has a turn nor
  // awaits one.
  void Take(const void* who, std::vector<int> gpus, Begin begin)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Returns true if `who` was waiting and no longer does: its `begin` is not
  // called.
  bool Leave(const void* who) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the turn of `who`.
  void GiveBack(const void* who) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Turn {
    const void* who = nullptr;
    std::vector<int> gpus;
    Begin begin;  // Null once it has been called.
  };

  // Removes the turn of `who`: a waiting one if `waits`, else a begun one.
  Turn Remove(const void* who, bool waits) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Takes the callbacks that wait for nobody, in order.
  std::vector<Begin> TakeDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  std::deque<Turn> turns_ ABSL_GUARDED_BY(mu_);  // Order of Take().
};

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_RUNTIME_NCCL_TURNS_H_
