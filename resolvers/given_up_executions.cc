#include "resolvers/given_up_executions.h"

namespace tutti {

bool GivenUpExecutions::Add(const ExecKey& execution,
                            const absl::Status& reason) {
  MutexLock lock(&mu_);
  if (!reasons_.try_emplace(execution, reason).second) return false;
  order_.push_back(execution);
  if (order_.size() > max_entries_) {
    reasons_.erase(order_.front());
    order_.pop_front();
  }
  return true;
}

absl::Status GivenUpExecutions::Find(const ExecKey& execution) {
  MutexLock lock(&mu_);
  const auto found = reasons_.find(execution);
  return found == reasons_.end() ? absl::OkStatus() : found->second;
}

void GivenUpExecutions::EndStep(int64_t step_id) {
  MutexLock lock(&mu_);
  Forget(step_id);
  if (!ended_steps_.insert(step_id).second) return;
  steps_order_.push_back(step_id);
  if (steps_order_.size() > max_entries_) {
    ended_steps_.erase(steps_order_.front());
    steps_order_.pop_front();
  }
}

void GivenUpExecutions::BeginStep(int64_t step_id) {
  MutexLock lock(&mu_);
  if (ended_steps_.erase(step_id) == 0) return;
  std::erase(steps_order_, step_id);
  Forget(step_id);
}

bool GivenUpExecutions::IsOver(int64_t step_id) {
  MutexLock lock(&mu_);
  return ended_steps_.contains(step_id);
}

size_t GivenUpExecutions::size() {
  MutexLock lock(&mu_);
  return reasons_.size();
}

void GivenUpExecutions::Forget(int64_t step_id) {
  if (reasons_.empty()) return;
  std::erase_if(order_, [step_id](const ExecKey& execution) {
    return execution.step == step_id;
  });
  absl::erase_if(reasons_, [step_id](const auto& entry) {
    return entry.first.step == step_id;
  });
}

}  // namespace tutti
