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
  }
  instance->members.push_back(device);
  entry->second.instance = instance.get();
  return entry->second;
}

absl::StatusOr<std::shared_ptr<Execution>> ExecutionTable::Join(
    const Device* device, const CollectiveRequest& request,
    std::optional<uint64_t> number, Settled* settled) {
  MutexLock lock(&mu_);
  if (instances_.size() >= std::max(next_sweep_, max_instances_)) {
    ForgetOldInstances();
  }
  Member& member = FindOrAddMember(device, request);
  Instance& instance = *member.instance;
  const uint64_t chosen = number.value_or(member.next_execution);
  std::shared_ptr<Execution>& execution = instance.executions[chosen];
  if (execution == nullptr) {
    execution = std::make_shared<Execution>(
        InstanceId{request.group_key, request.instance_key}, chosen);
  }
  auto& joined = execution->joined_;
  if (number.has_value() &&
      std::find(joined.begin(), joined.end(), device) != joined.end()) {
    return absl::AlreadyExistsError(absl::StrCat(
        device->full_name(), " is already in execution ", chosen, " of group ",
        request.group_key, ", instance ", request.instance_key));
  }
  joined.push_back(device);
  ++member.next_execution;
  instance.last_used = ++num_joins_;
  if (member.settled.params != nullptr) SetKey(*execution, member.settled);
  *settled = member.settled;
  return execution;
}

void ExecutionTable::Settle(const Device* device, Execution& execution,
                            Settled settled) {
  MutexLock lock(&mu_);
  SetKey(execution, settled);
  Member& member = members_.at(MemberKey{device, execution.id});
  member.instance->num_expected =
      static_cast<size_t>(settled.params->task->num_local);
  member.settled = std::move(settled);
}

void ExecutionTable::SetKey(Execution& execution, const Settled& settled) {
  if (execution.key_.has_value()) return;
  execution.key_ = ExecKey{settled.params->group->generation, step_id_,
                           execution.id.group_key, execution.id.instance_key,
                           execution.number};
}

std::optional<ExecKey> ExecutionTable::Leave(Execution& execution) {
  MutexLock lock(&mu_);
  ++execution.num_left_;
  const auto found = instances_.find(execution.id);
  if (found == instances_.end()) return std::nullopt;
  Instance& instance = *found->second;
  if (execution.num_left_ < instance.num_expected ||
      execution.num_left_ < execution.joined_.size()) {
    return std::nullopt;
  }
  instance.executions.erase(execution.number);
  instance.ended.Insert(execution.number);
  return execution.key_;
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

std::optional<ExecKey> ExecutionTable::KeyOf(const Execution& execution) {
  MutexLock lock(&mu_);
  return execution.key_;
}

std::vector<const Device*> ExecutionTable::Joined(const Execution& execution) {
  MutexLock lock(&mu_);
  return {execution.joined_.begin(), execution.joined_.end()};
}

std::vector<std::shared_ptr<Execution>> ExecutionTable::Running(
    std::optional<GroupKey> group_key) {
  MutexLock lock(&mu_);
  std::vector<std::shared_ptr<Execution>> running;
  for (const auto& [id, instance] : instances_) {
    if (group_key.has_value() && id.group_key != *group_key) continue;
    for (const auto& [number, execution] : instance->executions) {
      running.push_back(execution);
    }
  }
  return running;
}

size_t ExecutionTable::num_instances() {
  MutexLock lock(&mu_);
  return instances_.size();
}

uint64_t ExecutionTable::NumCalls(const Device* device, InstanceId id) {
  return members_.at(MemberKey{device, id}).next_execution;
}

bool ExecutionTable::IsIdle(InstanceId id, const Instance& instance) {
  if (!instance.executions.empty() ||
      instance.members.size() < instance.num_expected) {
    return false;
  }
  const uint64_t num_calls = NumCalls(instance.members[0], id);
  for (const Device* device : instance.members) {
    if (NumCalls(device, id) != num_calls) return false;
  }
  return true;
}

// Forgets the less recently used half of what is idle; so that a step that
// always runs many instances is rarely swept, waits for twice as many as stay.
void ExecutionTable::ForgetOldInstances() {
  std::vector<std::pair<uint64_t, InstanceId>> idle;
  for (const auto& [id, instance] : instances_) {
    if (IsIdle(id, *instance)) idle.emplace_back(instance->last_used, id);
  }
  const size_t num_idle = idle.size();
  if (num_idle <= max_instances_ / 2) idle.clear();  // They were used lately.
  const std::vector<InstanceId> oldest = OldestHalf(std::move(idle));
  for (InstanceId id : oldest) Forget(id);
  const size_t num_busy = instances_.size() - (num_idle - oldest.size());
  next_sweep_ = max_instances_ + 2 * num_busy;
}

void ExecutionTable::Forget(InstanceId id) {
  const auto found = instances_.find(id);
  for (const Device* device : found->second->members) {
    members_.erase(MemberKey{device, id});
  }
  instances_.erase(found);
}

}  // namespace tutti
