#include "resolvers/leader/given_up_executions.h"

#include <deque>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

// Larger than all numbers of clean-ups.
constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();

// No number of a beginning.
constexpr uint64_t kOnAllTasks = std::numeric_limits<uint64_t>::max();

}  // namespace

ExecKey KeyOf(InstanceId instance, CallNumber number) {
  return {.step = number.step_id,
          .group = instance.group_key,
          .instance = instance.instance_key,
          .execution = number.execution};
}

bool GivenUpExecutions::Add(const GivenUp& given_up) {
  MutexLock lock(&mu_);
  return AddLocked(given_up, /*is_own=*/false);
}

std::optional<GivenUp> GivenUpExecutions::AddOwn(const ExecKey& execution,
                                                 const absl::Status& reason,
                                                 uint64_t beginning) {
  MutexLock lock(&mu_);
  const auto begun = beginnings_.find(execution.step);
  if (begun != beginnings_.end() && begun->second != beginning) {
    return std::nullopt;
  }
  const auto ended = ended_steps_.find(execution.step);
  if (ended != ended_steps_.end() && ended->second != beginning) {
    return std::nullopt;
  }
  GivenUp own = {.execution = execution,
                 .reason = reason,
                 .last_cleanup = cleanups_.LastOf(execution.step)};
  if (!AddLocked(own, /*is_own=*/true)) return std::nullopt;
  return own;
}

// The first reason stays in each time between two clean-ups.
bool GivenUpExecutions::AddLocked(const GivenUp& given_up, bool is_own) {
  const auto& [execution, reason, last_cleanup] = given_up;
  if (cleanups_.IsLate(execution.step, last_cleanup)) return false;
  const auto [entry, is_new] = known_.try_emplace(execution);
  Known& known = entry->second;
  if (!is_new && last_cleanup <= known.last_cleanup) return false;
  known = {reason, last_cleanup, is_own || known.is_own};
  if (!is_new) return true;
  order_.push_back(execution);
  if (order_.size() > max_entries_) {
    known_.erase(order_.front());
    order_.pop_front();
  }
  return true;
}

absl::Status GivenUpExecutions::Find(const ExecKey& execution) {
  MutexLock lock(&mu_);
  return FindLocked(execution);
}

absl::Status GivenUpExecutions::Find(const ExecKey& execution,
                                     uint64_t last_cleanup) {
  MutexLock lock(&mu_);
  if (cleanups_.IsLate(execution.step, last_cleanup)) {
    return CleanedUp(execution.step);
  }
  return FindLocked(execution);
}

absl::Status GivenUpExecutions::CleanedUp(int64_t step_id) {
  return absl::AbortedError(
      absl::StrCat("step ", step_id, " has been cleaned up"));
}

absl::Status GivenUpExecutions::FindLocked(const ExecKey& execution) {
  const auto found = known_.find(execution);
  return found == known_.end() ? absl::OkStatus() : found->second.reason;
}

std::vector<GivenUp> GivenUpExecutions::OfGroup(GroupKey group) {
  std::vector<GivenUp> found;
  MutexLock lock(&mu_);
  for (const ExecKey& execution : order_) {
    if (execution.group != group) continue;
    const Known& known = known_.at(execution);
    found.push_back({execution, known.reason, known.last_cleanup});
  }
  return found;
}

std::vector<GivenUp> GivenUpExecutions::Own() {
  std::vector<GivenUp> found;
  MutexLock lock(&mu_);
  for (const ExecKey& execution : order_) {
    const Known& known = known_.at(execution);
    if (!known.is_own) continue;
    found.push_back({execution, known.reason, known.last_cleanup});
  }
  return found;
}

void GivenUpExecutions::EndStep(int64_t step_id) {
  MutexLock lock(&mu_);
  const auto begun = beginnings_.find(step_id);
  if (begun == beginnings_.end()) return;  // It was over on all tasks.
  AddEnded(step_id, begun->second);
  beginnings_.erase(begun);
  Forget(step_id, kAll);
}

// One that is not the last ends the step once more: with all that is known.
void GivenUpExecutions::EndStepEverywhere(int64_t step_id, uint64_t cleanup) {
  MutexLock lock(&mu_);
  beginnings_.erase(step_id);
  const bool is_last = cleanup > cleanups_.LastOf(step_id);
  cleanups_.Add(step_id, cleanup);
  Forget(step_id, is_last ? cleanup : kAll);
  AddEnded(step_id, kOnAllTasks);
}

void GivenUpExecutions::AddEnded(int64_t step_id, uint64_t beginning) {
  const bool is_new = ended_steps_.insert_or_assign(step_id, beginning).second;
  if (!is_new) return;
  steps_order_.push_back(step_id);
  if (steps_order_.size() > max_entries_) {
    ended_steps_.erase(steps_order_.front());
    steps_order_.pop_front();
  }
}

uint64_t GivenUpExecutions::BeginStep(int64_t step_id) {
  MutexLock lock(&mu_);
  if (ended_steps_.erase(step_id) > 0) std::erase(steps_order_, step_id);
  return beginnings_[step_id] = ++num_beginnings_;
}

bool GivenUpExecutions::IsOverOnAllTasks(int64_t step_id) {
  MutexLock lock(&mu_);
  const auto found = ended_steps_.find(step_id);
  return found != ended_steps_.end() && found->second == kOnAllTasks;
}

uint64_t GivenUpExecutions::LastCleanup() {
  MutexLock lock(&mu_);
  return cleanups_.last();
}

uint64_t GivenUpExecutions::LastCleanupOf(int64_t step_id) {
  MutexLock lock(&mu_);
  return cleanups_.LastOf(step_id);
}

bool GivenUpExecutions::IsLate(int64_t step_id, uint64_t cleanup) {
  MutexLock lock(&mu_);
  return cleanups_.IsLate(step_id, cleanup);
}

void GivenUpExecutions::SkipCleanups(uint64_t number) {
  MutexLock lock(&mu_);
  cleanups_.Skip(number);
}

size_t GivenUpExecutions::size() {
  MutexLock lock(&mu_);
  return known_.size();
}

void GivenUpExecutions::Forget(int64_t step_id, uint64_t cleanup) {
  std::deque<ExecKey> kept;
  for (const ExecKey& execution : order_) {
    const auto found = known_.find(execution);
    if (execution.step == step_id && found->second.last_cleanup < cleanup) {
      known_.erase(found);
    } else {
      kept.push_back(execution);
    }
  }
  order_ = std::move(kept);
}

}  // namespace tutti
