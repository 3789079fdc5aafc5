#include "framework/cancellation.h"

#include <utility>

namespace tutti {

void Cancellation::Cancel(absl::Status reason) {
  if (reason.ok()) reason = absl::CancelledError("cancelled");
  absl::flat_hash_map<WatchId, Watcher> watchers;
  {
    MutexLock lock(&mu_);
    if (!status_.ok()) return;
    status_ = reason;
    cancelled_.store(true, std::memory_order_release);
    watchers.swap(watchers_);
  }
  for (auto& [id, watcher] : watchers) std::move(watcher)(reason);
}

absl::Status Cancellation::status() const {
  if (!cancelled()) return absl::OkStatus();
  MutexLock lock(&mu_);
  return status_;
}

Cancellation::WatchId Cancellation::Watch(Watcher watcher) {
  absl::Status reason;
  {
    MutexLock lock(&mu_);
    if (status_.ok()) {
      watchers_.emplace(++last_id_, std::move(watcher));
      return last_id_;
    }
    reason = status_;
  }
  std::move(watcher)(reason);
  return 0;
}

void Cancellation::Unwatch(WatchId id) {
  Watcher unused;  // Destroyed outside the lock.
  MutexLock lock(&mu_);
  const auto found = watchers_.find(id);
  if (found == watchers_.end()) return;
  unused = std::move(found->second);
  watchers_.erase(found);
}

}  // namespace tutti
