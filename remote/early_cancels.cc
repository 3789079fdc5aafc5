#include "remote/early_cancels.h"

#include <utility>

namespace tutti {

bool EarlyCancels::Add(EarlyCancel cancel, absl::Time now) {
  while (!kept_.empty() && kept_.front().came_at + lifetime_ < now) {
    kept_.pop_front();
  }
  if (kept_.size() >= max_kept_) return false;
  kept_.push_back({std::move(cancel), now});
  return true;
}

std::vector<EarlyCancels::EarlyCancel> EarlyCancels::OfGroup(
    GroupKey group) const {
  std::vector<EarlyCancel> found;
  for (const Kept& kept : kept_) {
    if (kept.cancel.exec.group == group) found.push_back(kept.cancel);
  }
  return found;
}

void EarlyCancels::Remove(const EarlyCancel& cancel) {
  std::erase_if(kept_, [&cancel](const Kept& kept) {
    return kept.cancel.exec == cancel.exec &&
           kept.cancel.caller == cancel.caller;
  });
}

void EarlyCancels::RemoveStep(int64_t step_id) {
  std::erase_if(kept_, [step_id](const Kept& kept) {
    return kept.cancel.exec.step == step_id;
  });
}

}  // namespace tutti
