#include "framework/executor/dependency_tracker.h"

#include <memory>
#include <utility>
#include <vector>

#include "framework/base/callbacks.h"

namespace tutti {

DependencyTracker::~DependencyTracker() {
  absl::flat_hash_map<InstanceId, std::vector<WaitPtr>> waiting;
  {
    MutexLock lock(&mu_);
    waiting = waiting_;
  }
  for (const auto& [id, waits] : waiting) {
    for (const WaitPtr& wait : waits) {
      End(wait, absl::CancelledError("the step has ended"));
    }
  }
}

void DependencyTracker::CheckWaits(InstanceId id) {
  std::vector<WaitPtr> ready;
  {
    MutexLock lock(&mu_);
    const auto found = waiting_.find(id);
    if (found == waiting_.end()) return;
    num_waiting_ -= std::erase_if(found->second, [&](const WaitPtr& wait) {
      if (!has_launched_(id, wait->number)) return false;
      std::erase(wait->missing, id);
      if (wait->begun && wait->missing.empty()) ready.push_back(wait);
      return true;
    });
    if (found->second.empty()) waiting_.erase(found);
  }
  for (const WaitPtr& wait : ready) End(wait, absl::OkStatus());
}

void DependencyTracker::WaitFor(const std::vector<InstanceId>& dependencies,
                                uint64_t number, Cancellation& cancellation,
                                StatusCallback ready) {
  const auto wait = std::make_shared<Wait>();
  wait->number = number;
  wait->cancellation = &cancellation;
  wait->ready = std::move(ready);
  {
    MutexLock lock(&mu_);
    wait->missing = dependencies;
    for (InstanceId id : dependencies) waiting_[id].push_back(wait);
    num_waiting_ += dependencies.size();
  }
  for (InstanceId id : dependencies) Launched(id);
  const Cancellation::WatchId watch = cancellation.Watch(
      [this, wait](const absl::Status& reason) { End(wait, reason); });
  {
    MutexLock lock(&mu_);
    wait->watch = watch;
    wait->begun = true;
    if (wait->over || !wait->missing.empty()) return;
  }
  End(wait, absl::OkStatus());
}

void DependencyTracker::End(const WaitPtr& wait, absl::Status status) {
  Cancellation::WatchId watch = 0;
  {
    MutexLock lock(&mu_);
    if (wait->over) return;
    wait->over = true;
    watch = wait->watch;
    for (InstanceId id : wait->missing) {
      const auto found = waiting_.find(id);
      if (found == waiting_.end()) continue;
      num_waiting_ -= std::erase(found->second, wait);
      if (found->second.empty()) waiting_.erase(found);
    }
  }
  if (watch != 0) wait->cancellation->Unwatch(watch);
  RunOnTrampoline(
      [ready = std::move(wait->ready), status = std::move(status)]() mutable {
        std::move(ready)(std::move(status));
      });
}

}  // namespace tutti
