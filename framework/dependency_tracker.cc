#include "framework/dependency_tracker.h"

#include <memory>
#include <utility>
#include <vector>

namespace tutti {
namespace {

// Runs callbacks of which each may make the next one ready: one after another
// on this thread, so that a long chain of dependencies needs no stack.
void RunInTurn(DependencyTracker::Ready ready) {
  static thread_local std::vector<DependencyTracker::Ready>* queue = nullptr;
  if (queue != nullptr) {
    queue->push_back(std::move(ready));
    return;
  }
  std::vector<DependencyTracker::Ready> mine;
  queue = &mine;
  mine.push_back(std::move(ready));
  while (!mine.empty()) {
    DependencyTracker::Ready next = std::move(mine.back());
    mine.pop_back();
    std::move(next)();
  }
  queue = nullptr;
}

}  // namespace

void DependencyTracker::Launched(InstanceId id) {
  // A wait is counted before its condition is checked: either this sees the
  // wait, or that check sees the launch.
  if (num_waiting_.load(std::memory_order_seq_cst) == 0) return;
  std::vector<std::shared_ptr<Waiter>> ready;
  {
    MutexLock lock(&mu_);
    const auto found = waiting_.find(id);
    if (found == waiting_.end()) return;
    std::vector<Waiting> still_waiting;
    for (Waiting& entry : found->second) {
      if (!has_launched_(id, entry.number)) {
        still_waiting.push_back(std::move(entry));
        continue;
      }
      num_waiting_.fetch_sub(1, std::memory_order_seq_cst);
      if (--entry.waiter->num_missing == 0) {
        ready.push_back(std::move(entry.waiter));
      }
    }
    found->second = std::move(still_waiting);
    if (found->second.empty()) waiting_.erase(found);
  }
  for (const auto& waiter : ready) RunInTurn(std::move(waiter->ready));
}

void DependencyTracker::WaitFor(const std::vector<InstanceId>& dependencies,
                                uint64_t number, Ready ready) {
  auto waiter = std::make_shared<Waiter>();
  waiter->num_missing = dependencies.size() + 1;
  waiter->ready = std::move(ready);
  {
    MutexLock lock(&mu_);
    for (InstanceId id : dependencies) {
      waiting_[id].push_back({number, waiter});
      num_waiting_.fetch_add(1, std::memory_order_seq_cst);
    }
  }
  for (InstanceId id : dependencies) Launched(id);
  {
    MutexLock lock(&mu_);
    if (--waiter->num_missing > 0) return;
  }
  RunInTurn(std::move(waiter->ready));
}

}  // namespace tutti
