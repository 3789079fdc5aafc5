#include "framework/execution_table.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/oldest_half.h"

namespace tutti {

ExecutionTable::Member& ExecutionTable::FindOrAddMember(
    const Device* device, const CollectiveRequest& request) {
  const InstanceId id{request.group_key, request.instance_key};
  const auto [entry, is_new] = members_.try_emplace(MemberKey{device, id});
  if (!is_new) return entry->second;
  std::unique_ptr<Instance>& instance = instances_[id];
  if (instance == nullptr) {
    instance = std::make_unique<Instance>();
    instance->num_expected =
        std::min(num_local_devices_, static_cast<size_t>(request.group_size));
    const auto& dependencies = request.impl_details.dependencies;
    if (!dependencies.empty()) kept_.insert(id);
    kept_.insert(dependencies.begin(), dependencies.end());
  }
  instance->members.push_back(device);
  entry->second.instance = instance.get();
  names_.try_emplace(device, device->full_name());
  return entry->second;
}

// Which execution the member's next call takes part in.
absl::StatusOr<uint64_t> ExecutionTable::ChooseNumber(
    const Device* device, const CollectiveRequest& request,
    std::optional<uint64_t> number, Member& member) {
  const auto describe = [&] {
    return absl::StrCat("group ", request.group_key, ", instance ",
                        request.instance_key);
  };
  if (member.num_calls > 0 && member.gives_numbers != number.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        device->full_name(), " called ", describe(),
        number.has_value() ? " by execution number now, but not before"
                           : " by execution number before, but not now"));
  }
  if (!number.has_value()) return member.num_calls;
  if (member.numbers.Contains(*number)) {
    return absl::AlreadyExistsError(absl::StrCat(device->full_name(),
                                                 " is already in execution ",
                                                 *number, " of ", describe()));
  }
  member.gives_numbers = true;
  member.numbers.Insert(*number);
  return *number;
}

absl::StatusOr<ExecutionTable::Joined> ExecutionTable::Join(
    const Device* device, const CollectiveRequest& request,
    std::optional<uint64_t> number) {
  MutexLock lock(&mu_);
  Joined joined;
  if (members_.size() >= std::max(next_sweep_, max_entries_)) {
    joined.forgotten = ForgetOldInstances();
  }
  Member& member = FindOrAddMember(device, request);
  Instance& instance = *member.instance;
  const auto chosen = ChooseNumber(device, request, number, member);
  if (!chosen.ok()) return chosen.status();
  std::shared_ptr<Execution>& execution = instance.executions[*chosen];
  if (execution == nullptr) {
    execution = std::make_shared<Execution>(
        InstanceId{request.group_key, request.instance_key}, *chosen);
  }
  execution->joined_.push_back(device);
  ++member.num_calls;
  instance.last_used = ++num_joins_;
  joined.execution = execution;
  joined.settled = member.settled;
  if (member.settled.params != nullptr &&
      !member.settled.params->group->cancellation->cancelled()) {
    // If it has the key of another generation, that one has ended, and so will
    // the execution.
    SetKey(*execution, member.settled).IgnoreError();
  }
  return joined;
}

absl::Status ExecutionTable::Settle(const Device* device, Execution& execution,
                                    Settled settled) {
  MutexLock lock(&mu_);
  absl::Status status = SetKey(execution, settled);
  if (!status.ok()) return status;
  Member& member = members_.at(MemberKey{device, execution.id});
  const auto num_local = static_cast<size_t>(settled.params->task->num_local);
  std::swap(member.settled, settled);  // Freed by the caller, without the lock.
  Instance& instance = *member.instance;
  instance.spans_tasks =
      num_local < member.settled.params->group->members.size();
  if (num_local >= instance.num_expected) return absl::OkStatus();
  // Calls with another group size may have failed before this one.
  instance.num_expected = num_local;
  std::vector<std::shared_ptr<Execution>> executions;
  for (const auto& [number, other] : instance.executions) {
    executions.push_back(other);
  }
  for (const auto& other : executions) EndIfAllLeft(instance, *other);
  return absl::OkStatus();
}

absl::Status ExecutionTable::SetKey(Execution& execution,
                                    const Settled& settled) {
  const ExecKey key{settled.params->group->generation, step_id_,
                    execution.id.group_key, execution.id.instance_key,
                    execution.number};
  if (!execution.key_.has_value()) {
    execution.key_ = key;
    execution.group_ = settled.params->group;
  }
  if (*execution.key_ == key) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(
      "group ", key.group, " was formed again while execution ", key.execution,
      " of instance ", key.instance, " began: some of its members run it in ",
      "generation ", execution.key_->generation, ", others in generation ",
      key.generation));
}

std::optional<ExecKey> ExecutionTable::Leave(Execution& execution) {
  MutexLock lock(&mu_);
  ++execution.num_left_;
  const auto found = instances_.find(execution.id);
  if (found == instances_.end()) return std::nullopt;
  EndIfAllLeft(*found->second, execution);
  return KeyToForget(execution);
}

void ExecutionTable::EndIfAllLeft(Instance& instance, Execution& execution) {
  if (execution.num_left_ < instance.num_expected ||
      execution.num_left_ < execution.joined_.size()) {
    return;
  }
  execution.over_ = true;
  instance.executions.erase(execution.number);
  instance.ended.Insert(execution.number);
}

std::optional<ExecKey> ExecutionTable::KeyToForget(const Execution& execution) {
  if (!execution.over_ || execution.num_cancelling_ > 0) return std::nullopt;
  return execution.key_;
}

std::optional<ExecKey> ExecutionTable::BeginCancel(Execution& execution) {
  MutexLock lock(&mu_);
  if (execution.over_ || !execution.key_.has_value()) return std::nullopt;
  ++execution.num_cancelling_;
  return execution.key_;
}

std::optional<ExecKey> ExecutionTable::EndCancel(Execution& execution) {
  MutexLock lock(&mu_);
  --execution.num_cancelling_;
  return KeyToForget(execution);
}

bool ExecutionTable::HasLaunched(InstanceId id, uint64_t number) {
  MutexLock lock(&mu_);
  const auto found = instances_.find(id);
  if (found == instances_.end()) return false;
  const Instance& instance = *found->second;
  if (instance.ended.Contains(number)) return true;
  const auto execution = instance.executions.find(number);
  return execution != instance.executions.end() &&
         execution->second->num_launched >= instance.num_expected;
}

std::vector<std::string> ExecutionTable::JoinedNames(
    const Execution& execution) {
  MutexLock lock(&mu_);
  std::vector<std::string> names;
  for (const Device* device : execution.joined_) {
    names.push_back(names_.at(device));
  }
  return names;
}

std::vector<std::shared_ptr<Execution>> ExecutionTable::Running() {
  MutexLock lock(&mu_);
  std::vector<std::shared_ptr<Execution>> running;
  for (const auto& [id, instance] : instances_) {
    for (const auto& [number, execution] : instance->executions) {
      running.push_back(execution);
    }
  }
  return running;
}

std::vector<std::shared_ptr<Execution>> ExecutionTable::RunningIn(
    GroupKey group_key, uint64_t generation) {
  std::vector<std::shared_ptr<Execution>> running = Running();
  MutexLock lock(&mu_);
  std::erase_if(running, [&](const std::shared_ptr<Execution>& execution) {
    return execution->id.group_key != group_key ||
           !execution->key_.has_value() ||
           execution->key_->generation != generation;
  });
  return running;
}

size_t ExecutionTable::num_instances() {
  MutexLock lock(&mu_);
  return instances_.size();
}

// It failed, and those that came have left.
bool ExecutionTable::IsAbandoned(const Execution& execution) {
  return execution.cancellation.cancelled() &&
         execution.num_left_ == execution.joined_.size();
}

uint64_t ExecutionTable::NumCalls(const Device* device, InstanceId id) {
  return members_.at(MemberKey{device, id}).num_calls;
}

bool ExecutionTable::IsIdle(InstanceId id, const Instance& instance) {
  if (kept_.contains(id) || instance.spans_tasks) return false;
  if (!instance.executions.empty()) {
    return std::all_of(
        instance.executions.begin(), instance.executions.end(),
        [](const auto& entry) { return IsAbandoned(*entry.second); });
  }
  if (instance.members.size() < instance.num_expected) return false;
  const uint64_t num_calls = NumCalls(instance.members[0], id);
  for (const Device* device : instance.members) {
    if (NumCalls(device, id) != num_calls) return false;
  }
  return true;
}

// Forgets the less recently used half of what is idle; so that a step that
// always runs many instances is rarely swept, waits for twice as many as stay.
ExecutionTable::Forgotten ExecutionTable::ForgetOldInstances() {
  std::vector<std::pair<uint64_t, InstanceId>> idle;
  size_t num_idle_entries = 0;
  for (const auto& [id, instance] : instances_) {
    if (!IsIdle(id, *instance)) continue;
    idle.emplace_back(instance->last_used, id);
    num_idle_entries += instance->members.size();
  }
  Forgotten forgotten;
  const size_t num_busy_entries = members_.size() - num_idle_entries;
  next_sweep_ = max_entries_ + 2 * num_busy_entries;
  if (num_idle_entries <= max_entries_ / 2) return forgotten;  // Used lately.
  for (InstanceId id : OldestHalf(std::move(idle))) Forget(id, &forgotten);
  return forgotten;
}

void ExecutionTable::Forget(InstanceId id, Forgotten* forgotten) {
  const auto found = instances_.find(id);
  for (const auto& [number, execution] : found->second->executions) {
    execution->over_ = true;
    const auto key = KeyToForget(*execution);
    if (key.has_value()) forgotten->keys.push_back(*key);
  }
  for (const Device* device : found->second->members) {
    const auto member = members_.find(MemberKey{device, id});
    forgotten->settled.push_back(std::move(member->second.settled));
    members_.erase(member);
  }
  instances_.erase(found);
}

}  // namespace tutti
