#ifndef TUTTI_FRAMEWORK_CANCELLATION_H_
#define TUTTI_FRAMEWORK_CANCELLATION_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

namespace tutti {

// Word that many may wait for: set once, with the reason, and never unset.
//
// Thread-safe. Watchers run on the thread that cancels, with no lock held.
class Cancellation {
 public:
  using WatchId = uint64_t;  // Never 0.
  using Watcher = absl::AnyInvocable<void(const absl::Status&) &&>;

  Cancellation();
  ~Cancellation();
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  // The first reason stays. OK is taken as CANCELLED.
  void Cancel(absl::Status reason);

  // One load; use it before anything dearer.
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  // OK until cancelled.
  absl::Status status() const;

  // Runs `watcher` once when cancelled; inside this call, returning 0, if that
  // has happened already.
  WatchId Watch(Watcher watcher);

  // After this the watcher does not begin to run, unless Cancel() has begun:
  // that is not waited for. Unknown ids are ignored.
  void Unwatch(WatchId id);

 private:
  class Watchers;

  std::atomic<bool> cancelled_{false};
  const std::unique_ptr<Watchers> watchers_;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_CANCELLATION_H_
