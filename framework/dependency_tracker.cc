#include "framework/dependency_tracker.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "framework/oldest_half.h"

namespace tutti {

void DependencyTracker::Launched(InstanceId id) {
  std::vector<std::shared_ptr<Waiter>> ready;
  {
    MutexLock lock(&mu_);
    if (instances_.size() >= kMaxInstances) ForgetOldInstances();
    Instance& instance = instances_[id];
    ++instance.num_launches;
    instance.last_launch = ++num_launches_;
    auto& waiting = instance.waiting;
    const auto satisfied = std::partition(
        waiting.begin(), waiting.end(), [&](const Waiting& entry) {
          return entry.num_launches > instance.num_launches;
        });
    for (auto entry = satisfied; entry != waiting.end(); ++entry) {
      if (--entry->waiter->num_missing == 0) ready.push_back(entry->waiter);
    }
    waiting.erase(satisfied, waiting.end());
  }
  for (const auto& waiter : ready) std::move(waiter->ready)();
}

void DependencyTracker::WaitFor(const std::vector<InstanceId>& dependencies,
                                uint64_t num_launches, Ready ready) {
  auto waiter = std::make_shared<Waiter>();
  {
    MutexLock lock(&mu_);
    for (InstanceId id : dependencies) {
      Instance& instance = instances_[id];
      if (instance.num_launches >= num_launches) continue;
      instance.waiting.push_back({num_launches, waiter});
      ++waiter->num_missing;
    }
    if (waiter->num_missing > 0) {
      waiter->ready = std::move(ready);
      return;
    }
  }
  std::move(ready)();
}

// Forgets the half that was launched longest ago, but for what is waited for.
void DependencyTracker::ForgetOldInstances() {
  std::vector<std::pair<uint64_t, InstanceId>> idle;
  for (const auto& [id, instance] : instances_) {
    if (instance.waiting.empty()) idle.emplace_back(instance.last_launch, id);
  }
  for (InstanceId id : OldestHalf(std::move(idle))) instances_.erase(id);
}

}  // namespace tutti
