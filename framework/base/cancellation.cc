#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "framework/base/mutex.h"
#include "tutti/environment.h"

namespace tutti {

// Reason and watchers of a Cancellation. Thread-safe.
class Cancellation::Watchers {
 public:
  using Map = absl::flat_hash_map<WatchId, Watcher>;

  // Sets `reason`, which is not OK, and `cancelled`. Returns the watchers to
  // run; none if there was a reason before.
  Map Cancel(const absl::Status& reason, std::atomic<bool>& cancelled)
      ABSL_LOCKS_EXCLUDED(mu_) {
    Map watchers;
    MutexLock lock(&mu_);
    if (!reason_.ok()) return watchers;
    reason_ = reason;
    cancelled.store(true, std::memory_order_release);
    watchers.swap(watchers_);
    return watchers;
  }

  absl::Status reason() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return reason_;
  }

  WatchId Add(Watcher watcher) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::Status reason;
    {
      MutexLock lock(&mu_);
      if (reason_.ok()) {
        watchers_.emplace(++last_id_, std::move(watcher));
        return last_id_;
      }
      reason = reason_;
    }
    std::move(watcher)(reason);
    return 0;
  }

  void Remove(WatchId id) ABSL_LOCKS_EXCLUDED(mu_) {
    Watcher unused;  // Destroyed outside the lock.
    MutexLock lock(&mu_);
    const auto found = watchers_.find(id);
    if (found == watchers_.end()) return;
    unused = std::move(found->second);
    watchers_.erase(found);
  }

 private:
  Mutex mu_;
  absl::Status reason_ ABSL_GUARDED_BY(mu_);
  WatchId last_id_ ABSL_GUARDED_BY(mu_) = 0;
  Map watchers_ ABSL_GUARDED_BY(mu_);
};

Cancellation::Cancellation() : watchers_(std::make_unique<Watchers>()) {}

Cancellation::~Cancellation() = default;

void Cancellation::Cancel(absl::Status reason) {
  if (reason.ok()) reason = absl::CancelledError("cancelled");
  for (auto& [id, watcher] : watchers_->Cancel(reason, cancelled_)) {
    std::move(watcher)(reason);
  }
}

absl::Status Cancellation::status() const {
  return cancelled() ? watchers_->reason() : absl::OkStatus();
}

Cancellation::WatchId Cancellation::Watch(Watcher watcher) {
  return watchers_->Add(std::move(watcher));
}

void Cancellation::Unwatch(WatchId id) { watchers_->Remove(id); }

}  // namespace tutti
