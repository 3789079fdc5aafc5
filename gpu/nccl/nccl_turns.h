#ifndef TUTTI_GPU_NCCL_NCCL_TURNS_H_
#define TUTTI_GPU_NCCL_NCCL_TURNS_H_

#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "framework/mutex.h"

namespace tutti {

// Whose launch NCCL gets: one communicator's of a process at a time. Kernels of
// a launch wait for each other across GPUs, so two launches that came to two
// GPUs in different orders would wait for ever.
//
// Thread-safe. Callbacks run with no lock held.
class NcclTurns {
 public:
  // Calls `begin` once when nobody else has the turn: inside, or where another
  // gives it back; in the order of the calls. GiveBack() must follow.
  void Take(const void* who, absl::AnyInvocable<void() &&> begin)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Whether `who` was waiting, and does not any more: its `begin` is not
  // called.
  bool Leave(const void* who) ABSL_LOCKS_EXCLUDED(mu_);

  void GiveBack() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Waiting {
    const void* who;
    absl::AnyInvocable<void() &&> begin;
  };

  Mutex mu_;
  bool is_taken_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_TURNS_H_
