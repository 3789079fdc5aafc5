#include "framework/base/step_uses.h"

#include <vector>

namespace tutti {

// State shared by all uses of a step.
struct StepUses::Present {
  std::vector<LastHolderPtr> waiters;  // Under the lock, until the last use.
};

StepUses::Use StepUses::Begin(int64_t step_id) {
  MutexLock lock(&mu_);
  const auto found = steps_.find(step_id);
  if (found != steps_.end()) {
    if (Use present = found->second.lock()) return present;
  }
  absl::erase_if(steps_,
                 [](const auto& step) { return step.second.expired(); });
  auto use = std::make_shared<Present>();
  steps_[step_id] = use;
  return use;
}

void StepUses::HoldUntilEnd(int64_t step_id, const LastHolderPtr& waiter) {
  Use present;  // Destroyed after the lock is released.
  MutexLock lock(&mu_);
  const auto found = steps_.find(step_id);
  if (found != steps_.end()) present = found->second.lock();
  if (present != nullptr) present->waiters.push_back(waiter);
}

}  // namespace tutti
