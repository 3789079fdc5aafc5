#ifndef TUTTI_FRAMEWORK_CANCELLATION_H_
#define TUTTI_FRAMEWORK_CANCELLATION_H_

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "framework/mutex.h"

namespace tutti {

// A word that many may wait for: set once, with the reason, and never unset.
//
// Thread-safe. Watchers run on the thread that cancels, with no lock held.
class Cancellation {
 public:
  using WatchId = uint64_t;  // Never 0.
  using Watcher = absl::AnyInvocable<void(const absl::Status&) &&>;

  Cancellation() = default;
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  // The first reason stays. OK is taken as CANCELLED.
  void Cancel(absl::Status reason) ABSL_LOCKS_EXCLUDED(mu_);

  // One load; use it before anything dearer.
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  // OK until cancelled.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mu_);

  // Runs `watcher` once when cancelled; inside this call, returning 0, if that
  // has happened already.
  WatchId Watch(Watcher watcher) ABSL_LOCKS_EXCLUDED(mu_);

  // After this the watcher does not begin to run, unless Cancel() has begun:
  // that is not waited for. Unknown ids are ignored.
  void Unwatch(WatchId id) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  std::atomic<bool> cancelled_{false};
  mutable Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  WatchId last_id_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<WatchId, Watcher> watchers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_CANCELLATION_H_
