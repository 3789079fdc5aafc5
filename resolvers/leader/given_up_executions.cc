#include "resolvers/leader/given_up_executions.h"

#include <utility>

namespace tutti {

ExecKey KeyOf(InstanceId instance, CallNumber number) {
  return {.step = number.step_id,
          .group = instance.group_key,
          .instance = instance.instance_key,
          .execution = number.execution};
}

bool GivenUpExecutions::Add(const GivenUp& given_up, bool is_own) {
  const auto& [execution, reason] = given_up;
  MutexLock lock(&mu_);
  if (ended_steps_.Contains(execution.step)) return false;
  if (!known_.try_emplace(execution, Known{reason, is_own}).second) {
    return false;
  }
  order_.push_back(execution);
  if (order_.size() > max_entries_) {
    known_.erase(order_.front());
    order_.pop_front();
  }
  return true;
}

absl::Status GivenUpExecutions::Find(const ExecKey& execution) {
  MutexLock lock(&mu_);
  if (ended_steps_.Contains(execution.step)) {
    return StepHasEndedError(execution.step);
  }
  const auto found = known_.find(execution);
  return found == known_.end() ? absl::OkStatus() : found->second.reason;
}

std::vector<GivenUp> GivenUpExecutions::OfGroup(GroupKey group) {
  std::vector<GivenUp> found;
  MutexLock lock(&mu_);
  for (const ExecKey& execution : order_) {
    if (execution.group != group) continue;
    found.push_back({execution, known_.at(execution).reason});
  }
  return found;
}

std::vector<GivenUp> GivenUpExecutions::Own() {
  std::vector<GivenUp> found;
  MutexLock lock(&mu_);
  for (const ExecKey& execution : order_) {
    const Known& known = known_.at(execution);
    if (known.is_own) found.push_back({execution, known.reason});
  }
  return found;
}

void GivenUpExecutions::EndStep(int64_t step_id) {
  MutexLock lock(&mu_);
  ended_steps_.Add(step_id);
  const auto is_of_step = [&](const ExecKey& execution) {
    return execution.step == step_id;
  };
  std::erase_if(order_, is_of_step);
  absl::erase_if(known_,
                 [&](const auto& known) { return is_of_step(known.first); });
}

size_t GivenUpExecutions::size() {
  MutexLock lock(&mu_);
  return known_.size();
}

}  // namespace tutti
