#include "resolvers/leader/step_cleanups.h"

#include <algorithm>

namespace tutti {

void StepCleanups::Add(int64_t step_id, uint64_t number) {
  last_ = std::max(last_, number);
  Known& known = steps_[step_id];
  known = {std::max(known.last, number), ++num_turns_};
  turns_.emplace_back(step_id, known.turn);
  if (turns_.size() <= max_entries_) return;
  const auto [oldest_step, turn] = turns_.front();
  turns_.pop_front();
  const auto oldest = steps_.find(oldest_step);
  if (oldest == steps_.end() || oldest->second.turn != turn) return;
  past_ = std::max(past_, oldest->second.last);
  steps_.erase(oldest);
}

void StepCleanups::Skip(uint64_t number) {
  last_ = std::max(last_, number);
  past_ = std::max(past_, number);
}

uint64_t StepCleanups::LastOf(int64_t step_id) const {
  const auto found = steps_.find(step_id);
  return found == steps_.end() ? past_ : found->second.last;
}

bool StepCleanups::IsLate(int64_t step_id, uint64_t number) const {
  const auto found = steps_.find(step_id);
  return found != steps_.end() && number < found->second.last;
}

}  // namespace tutti
