#ifndef TUTTI_GPU_NCCL_RUNTIME_NCCL_TURNS_H_
#define TUTTI_GPU_NCCL_RUNTIME_NCCL_TURNS_H_

#include <deque>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "framework/base/mutex.h"

namespace tutti {

// Whose launch NCCL gets: of the communicators that share a GPU of a process
// one's at a time. Kernels of a launch wait for each other across GPUs, so two
// launches that came to two GPUs in different orders would wait for ever.
//
// Those that share none do not wait for each other: a launch may wait for the
// same one of other processes, which have others before it.
//
// Thread-safe. Callbacks run with no lock held.
class NcclTurns {
 public:
  using Begin = absl::AnyInvocable<void() &&>;

  // Calls `begin` once when nobody who came before has or awaits a turn with
  // one of `gpus`: inside, or where another gives its turn back or leaves.
  // GiveBack() must follow. REQUIRES: `who` neither has a turn nor awaits one.
  void Take(const void* who, std::vector<int> gpus, Begin begin)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Whether `who` was waiting, and does not any more: its `begin` is not
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

  // Takes it out, where it waits or, if not `waits`, has begun.
  Turn Remove(const void* who, bool waits) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Of those that have nobody to wait for any more, in order.
  std::vector<Begin> TakeDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  std::deque<Turn> turns_ ABSL_GUARDED_BY(mu_);  // In the order of Take().
};

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_RUNTIME_NCCL_TURNS_H_
