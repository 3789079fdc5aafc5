#ifndef TUTTI_FRAMEWORK_PEER_ENDINGS_H_
#define TUTTI_FRAMEWORK_PEER_ENDINGS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "framework/base/ended_steps.h"
#include "framework/base/mutex.h"
#include "tutti/peer_access.h"

namespace tutti {

// Executions that end together: all, all of a step, all of a group's generation
// in a step, or one.
struct EndScope {
  enum Level : uint8_t { kAll, kStep, kGroup, kExecution };

  // Returns the scope of this level that `exec` lies in.
  static EndScope Of(ExecKey exec, Level level = kExecution);
  static EndScope OfStep(int64_t step) { return Of({.step = step}, kStep); }

  bool Contains(const ExecKey& exec) const { return Of(exec, level) == *this; }

  Level level = kAll;
  ExecKey exec;  // Fields of the levels within are 0.

  friend bool operator==(const EndScope&, const EndScope&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const EndScope& scope) {
    return H::combine(std::move(h), scope.level, scope.exec);
  }
};

// Ends and their reasons, in one table for all scopes. An end holds for
// everything within its scope, also for what comes later. The first reason
// stays. All ends of a step are forgotten with it.
//
// Thread-safe; runs no callbacks.
class Endings {
 public:
  // Adds the end of `scope`. Returns its reason: that of the scope around it if
  // that has ended, else `reason`, where OK counts as CANCELLED. Returns none
  // if this very scope has ended before, or if its step is forgotten.
  std::optional<absl::Status> Add(const EndScope& scope, absl::Status reason)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the reason of the innermost end around `exec`; OK if none has
  // ended. Costs one atomic load while nothing has ended.
  absl::Status StatusOf(const ExecKey& exec) const ABSL_LOCKS_EXCLUDED(mu_);

  // Forgets the end of an execution.
  void Forget(const ExecKey& exec) ABSL_LOCKS_EXCLUDED(mu_);

  // Remembers of the step only that it has ended (EndedSteps): StatusOf() then
  // returns StepHasEndedError(). Idempotent.
  void ForgetStep(int64_t step) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const absl::Status* Find(const ExecKey& exec, int innermost) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Count() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::atomic<size_t> num_ends_{0};
  mutable Mutex mu_;
  absl::flat_hash_map<EndScope, absl::Status> ends_ ABSL_GUARDED_BY(mu_);
  EndedSteps forgotten_steps_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_PEER_ENDINGS_H_
