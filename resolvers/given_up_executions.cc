#include "resolvers/given_up_executions.h"

#include <algorithm>

namespace tutti {

ExecKey KeyOf(InstanceId instance, CallNumber number) {
  return {.step = number.step_id,
          .group = instance.group_key,
          .instance = instance.instance_key,
          .execution = number.execution};
}

bool GivenUpExecutions::Add(const ExecKey& execution,
                            const absl::Status& reason) {
  MutexLock lock(&mu_);
  return AddLocked(execution, reason, /*is_own=*/false);
}

bool GivenUpExecutions::AddOwn(const ExecKey& execution,
                               const absl::Status& reason, uint64_t beginning) {
  MutexLock lock(&mu_);
  const auto begun = beginnings_.find(execution.step);
  if (begun != beginnings_.end() && begun->second != beginning) return false;
  const auto ended = ended_steps_.find(execution.step);
  if (ended != ended_steps_.end() &&
      ended->second.where == Where::kOnAllTasks) {
    return false;
  }
  return AddLocked(execution, reason, /*is_own=*/true);
}

bool GivenUpExecutions::AddLocked(const ExecKey& execution,
                                  const absl::Status& reason, bool is_own) {
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
  const auto found = known_.find(execution);
  return found == known_.end() ? absl::OkStatus() : found->second.reason;
}

std::vector<GivenUpExecutions::Entry> GivenUpExecutions::OfGroup(
    GroupKey group) {
  std::vector<Entry> entries;
  MutexLock lock(&mu_);
  for (const ExecKey& execution : order_) {
    if (execution.group != group) continue;
    entries.push_back({execution, known_.at(execution).reason});
  }
  return entries;
}

std::vector<GivenUpExecutions::Entry> GivenUpExecutions::Own() {
  std::vector<Entry> entries;
  MutexLock lock(&mu_);
  for (const ExecKey& execution : order_) {
    const Known& known = known_.at(execution);
    if (known.is_own) entries.push_back({execution, known.reason});
  }
  return entries;
}

void GivenUpExecutions::EndStep(int64_t step_id, Where where) {
  MutexLock lock(&mu_);
  beginnings_.erase(step_id);
  const auto [entry, is_new] = ended_steps_.try_emplace(step_id);
  Ended& ended = entry->second;
  if (ended.goes_on_elsewhere && where == Where::kHere) return;
  Forget(step_id);
  ended = {.where = std::max(ended.where, where)};
  if (!is_new) return;
  steps_order_.push_back(step_id);
  if (steps_order_.size() > max_entries_) {
    ended_steps_.erase(steps_order_.front());
    steps_order_.pop_front();
  }
}

uint64_t GivenUpExecutions::BeginStep(int64_t step_id) {
  MutexLock lock(&mu_);
  beginnings_[step_id] = ++num_beginnings_;
  const auto ended = ended_steps_.find(step_id);
  if (ended == ended_steps_.end()) return num_beginnings_;
  if (!ended->second.goes_on_elsewhere) Forget(step_id);
  ended_steps_.erase(ended);
  std::erase(steps_order_, step_id);
  return num_beginnings_;
}

void GivenUpExecutions::ContinueStep(int64_t step_id, Where where) {
  MutexLock lock(&mu_);
  const auto entry = ended_steps_.find(step_id);
  if (entry == ended_steps_.end()) return;
  Ended& ended = entry->second;
  if (ended.goes_on_elsewhere || ended.where > where) return;
  if (ended.where == Where::kOnAllTasks) {
    ended.goes_on_elsewhere = true;
    return Forget(step_id);
  }
  ended_steps_.erase(entry);
  std::erase(steps_order_, step_id);
}

bool GivenUpExecutions::IsOver(int64_t step_id, Where where) {
  MutexLock lock(&mu_);
  const auto found = ended_steps_.find(step_id);
  return found != ended_steps_.end() && !found->second.goes_on_elsewhere &&
         found->second.where >= where;
}

size_t GivenUpExecutions::size() {
  MutexLock lock(&mu_);
  return known_.size();
}

void GivenUpExecutions::Forget(int64_t step_id) {
  if (known_.empty()) return;
  std::erase_if(order_, [step_id](const ExecKey& execution) {
    return execution.step == step_id;
  });
  absl::erase_if(known_, [step_id](const auto& entry) {
    return entry.first.step == step_id;
  });
}

}  // namespace tutti
