#include "resolvers/local/led_groups.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/rank_list.h"
#include "framework/base/status_macros.h"
#include "framework/collective/member_params.h"
#include "framework/collective/request_fields.h"
#include "resolvers/local/instance_check.h"

namespace tutti {
namespace {

bool AreEqual(const std::vector<uint64_t>& numbers) {
  return std::adjacent_find(numbers.begin(), numbers.end(),
                            std::not_equal_to<>()) == numbers.end();
}

}  // namespace

bool LedGroup::IsAwaitedBy(absl::string_view task_name) const {
  return waiting.HasCallOfTask(task_name) ||
         std::any_of(instances.begin(), instances.end(),
                     [&](const auto& entry) {
                       return entry.second->waiting.HasCallOfTask(task_name);
                     });
}

bool LedGroup::IsFormedWith(absl::string_view task_name,
                            uint64_t incarnation) const {
  if (!status.ok() || cancellation == nullptr) return false;
  return builder.HasMemberOfTask(task_name, incarnation);
}

std::string LedGroup::DescribeWaiting(InstanceKey key) const {
  if (!status.ok()) return "";
  if (cancellation == nullptr) {
    return absl::StrCat("group phase: ", builder.Describe());
  }
  const auto entry = instances.find(key);
  if (entry == instances.end() || entry->second->all_arrived()) return "";
  std::vector<int> absent;
  for (int rank = 0; rank < params->size(); ++rank) {
    if (entry->second->requests[rank] == nullptr) absent.push_back(rank);
  }
  const auto name = [&](size_t i) {
    return absl::StrCat("rank ", absent[i], " (",
                        params->members[absent[i]].device.name.ToString(), ")");
  };
  return absl::StrCat("instance phase: ", ShortList(absent.size(), name),
                      " had not arrived");
}

// --- LedGroups ---------------------------------------------------------------

LedGroup* LedGroups::Find(GroupKey key) const {
  const auto found = groups_.find(key);
  return found == groups_.end() ? nullptr : found->second.get();
}

std::vector<GroupKey> LedGroups::Keys() const {
  std::vector<GroupKey> keys;
  for (const auto& [key, group] : groups_) keys.push_back(key);
  return keys;
}

absl::Status LedGroups::CheckEndedGeneration(const WaitingCall& call) const {
  const uint64_t limit = last_generation_ + 2 * kMaxGenerationsAhead;
  if (call.ended_generation <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("ended_generation of group ", call.request->group_key,
                   ", as ", call.device_name, " says, is ",
                   call.ended_generation, "; wanted at most ", limit));
}

void LedGroups::LeaveEndedGeneration(const WaitingCall& call,
                                     LeaderOutbox* outbox) {
  last_generation_ = std::max(last_generation_, call.ended_generation);
  const GroupKey key = call.request->group_key;
  const auto found = groups_.find(key);
  if (found == groups_.end()) return;
  LedGroup& group = *found->second;
  if (call.ended_generation < group.generation) return;
  if (group.is_forming()) {
    group.generation = ++last_generation_;  // No process knows the old one.
    return;
  }
  Drop(key,
       absl::AbortedError(absl::StrCat("generation ", group.generation,
                                       " of group ", key, " has ended, as ",
                                       call.device_name, " knows")),
       outbox);
}

void LedGroups::Renew(LedGroup& group, uint64_t ended) {
  last_generation_ = std::max(last_generation_, ended);
  group.generation = ++last_generation_;
}

absl::StatusOr<LedGroupPtr> LedGroups::FindOrAdd(const WaitingCall& call,
                                                 LeaderOutbox* outbox) {
  const GroupKey key = call.request->group_key;
  // Refuses a late call from before the loss of a task too: such a call must
  // not spoil the group that forms without the lost tasks.
  if (call.living_generation == 0 &&
      call.request->group_size > num_devices_left_) {
    return reason_for_no_more_;
  }
  const auto found = groups_.find(key);
  const bool is_led = found != groups_.end() &&
                      (call.living_generation == 0 ||
                       call.living_generation == found->second->generation);
  if (is_led) return found->second;
  if (call.living_generation != 0) {
    return absl::AbortedError(
        absl::StrCat("generation ", call.living_generation, " of group ", key,
                     ", which ", call.device_name, " is in, has ended"));
  }
  if (call.is_remote && groups_.size() >= limits_.max_groups) {
    return absl::ResourceExhaustedError(
        absl::StrCat("group ", key, ", which ", call.device_name,
                     " asks for, would be more than the ", limits_.max_groups,
                     " that the leader keeps"));
  }
  auto group = std::make_shared<LedGroup>(++last_generation_);
  groups_.emplace(key, group);
  SetNew(*group, outbox);
  return group;
}

void LedGroups::SetNew(LedGroup& group, LeaderOutbox* outbox) {
  if (std::exchange(group.is_new, true)) return;
  if (num_new_++ == 0) outbox->new_groups_changed = true;
}

void LedGroups::SetOld(LedGroup& group, LeaderOutbox* outbox) {
  if (!std::exchange(group.is_new, false)) return;
  if (--num_new_ == 0) outbox->new_groups_changed = true;
}

void LedGroups::SetFormed(LedGroup& group,
                          std::shared_ptr<const CollGroupParams> params,
                          std::shared_ptr<const CollTaskParams> task,
                          LeaderOutbox* outbox) {
  SetOld(group, outbox);  // New again if a member now waits for an instance.
  for (int rank = 0; rank < params->size(); ++rank) {
    group.rank_of_device[params->members[rank].device.name.ToString()] = rank;
  }
  group.params = std::move(params);
  group.task = std::move(task);
}

void LedGroups::Fail(LedGroup& group, absl::Status status,
                     LeaderOutbox* outbox) {
  SetOld(group, outbox);
  group.status = status;
  const auto answer = [&](WaitingCalls& waiting) {
    for (WaitingCallPtr& call : waiting.TakeAll()) {
      outbox->answers.emplace_back(std::move(call),
                                   LeaderAnswer{status, group.generation});
    }
  };
  answer(group.waiting);
  for (auto& [key, instance] : group.instances) {
    answer(instance->waiting);
    num_entries_ -= instance->num_entries;
    outbox->dropped.push_back(std::move(instance));
  }
  group.instances.clear();
  if (group.cancellation != nullptr) {
    outbox->ended_groups.emplace_back(group.cancellation, std::move(status));
  }
}

void LedGroups::Drop(GroupKey key, absl::Status reason, LeaderOutbox* outbox) {
  const auto found = groups_.find(key);
  LedGroupPtr group = std::move(found->second);
  groups_.erase(found);
  Fail(*group, std::move(reason), outbox);
  outbox->dropped.push_back(std::move(group));
}

void LedGroups::DropTask(absl::string_view task_name, uint64_t incarnation,
                         const absl::Status& reason, LeaderOutbox* outbox) {
  std::vector<GroupKey> ended;
  for (const auto& [key, group] : groups_) {
    if (group->IsFormedWith(task_name, incarnation)) {
      ended.push_back(key);
      continue;
    }
    for (auto& call : group->waiting.TakeCallsOfTask(task_name, incarnation)) {
      group->builder.Withdraw(call->device_name);
      outbox->answers.emplace_back(std::move(call), LeaderAnswer{reason});
    }
    if (group->builder.empty() && group->status.ok()) ended.push_back(key);
  }
  for (GroupKey key : ended) Drop(key, reason, outbox);
}

void LedGroups::SetDevicesLeft(int64_t num_devices, absl::Status reason,
                               LeaderOutbox* outbox) {
  num_devices_left_ = num_devices;
  reason_for_no_more_ = std::move(reason);
  std::vector<GroupKey> ended;
  for (const auto& [key, group] : groups_) {
    if (group->is_forming() && group->builder.size() > num_devices_left_) {
      ended.push_back(key);
    }
  }
  for (GroupKey key : ended) Drop(key, reason_for_no_more_, outbox);
}

LedInstancePtr LedGroups::ArriveAtInstance(LedGroup& group,
                                           const WaitingCallPtr& call,
                                           LeaderOutbox* outbox) {
  const int rank = group.rank_of_device.at(call->device_name);
  if (call->group_only) {
    outbox->answers.emplace_back(
        call, LeaderAnswer{MembershipIn(group.params, group.task, rank)});
    return nullptr;
  }
  const auto found = FindOrAddInstance(group, *call, outbox);
  if (!found.ok()) {
    outbox->answers.emplace_back(call, LeaderAnswer{found.status()});
    return nullptr;
  }
  const LedInstancePtr& instance = *found;
  instance->last_used = ++num_calls_;
  auto& request = instance->requests[rank];
  const bool is_new = request == nullptr;
  if (is_new) {
    request = call->request;
    ++instance->num_arrived;
  } else if (absl::Status status = CheckSameRequest(*request, *call->request);
             !status.ok()) {
    outbox->answers.emplace_back(call, LeaderAnswer{std::move(status)});
    return nullptr;
  }
  if (is_new || !call->requests_once) ++instance->num_calls[rank];
  if (!instance->completed.empty()) {
    outbox->answers.emplace_back(call, LeaderAnswer{instance->completed[rank]});
    return nullptr;
  }
  instance->waiting.Add(call);
  if (call->living_generation != group.generation) SetNew(group, outbox);
  return is_new && instance->all_arrived() ? instance : nullptr;
}

absl::StatusOr<LedInstancePtr> LedGroups::FindOrAddInstance(
    LedGroup& group, const WaitingCall& call, LeaderOutbox* outbox) {
  const InstanceKey key = call.request->instance_key;
  const auto found = group.instances.find(key);
  if (found != group.instances.end()) return found->second;
  if (num_entries_ >= next_sweep_) ForgetOldInstances(outbox);
  const size_t num_members = group.params->members.size();
  if (call.is_remote && num_entries_ + num_members > 8 * limits_.max_entries) {
    return absl::ResourceExhaustedError(
        absl::StrCat(InstanceLabel(*call.request), ", which ", call.device_name,
                     " asks for: the leader keeps ", num_entries_,
                     " entries of instances already; wanted are at most ",
                     8 * limits_.max_entries));
  }
  const auto instance = std::make_shared<LedInstance>();
  instance->requests.resize(num_members);
  instance->num_calls.resize(num_members);
  instance->num_entries = num_members;
  num_entries_ += num_members;
  group.instances.emplace(key, instance);
  return instance;
}

void LedGroups::SetCompleted(
    LedGroup& group, LedInstance& instance,
    std::vector<std::shared_ptr<const CollectiveParams>> params,
    LeaderOutbox* outbox) {
  instance.completed = std::move(params);
  SetOld(group, outbox);
  const size_t num_rows = instance.completed[0]->instance->rows.size();
  instance.num_entries += num_rows;
  num_entries_ += num_rows;
}

void LedGroups::DropInstance(LedGroup& group, InstanceKey key,
                             LeaderOutbox* outbox) {
  const auto found = group.instances.find(key);
  num_entries_ -= found->second->num_entries;
  outbox->dropped.push_back(std::move(found->second));
  group.instances.erase(found);
}

bool LedGroups::Leave(const WaitingCallPtr& call, const absl::Status& reason,
                      LeaderOutbox* outbox) {
  const GroupKey key = call->request->group_key;
  LedGroup* const group = Find(key);
  if (group == nullptr) return false;
  if (!LeaveGroup(*group, *call) && !LeaveInstance(*group, *call, outbox)) {
    return false;
  }
  outbox->answers.emplace_back(call, LeaderAnswer{reason});
  if (group->builder.empty()) Drop(key, reason, outbox);
  return true;
}

bool LedGroups::LeaveGroup(LedGroup& group, const WaitingCall& call) {
  if (!group.waiting.Remove(call)) return false;
  const bool is_complete = group.cancellation != nullptr;
  if (!is_complete && !group.waiting.HasCallOf(call.device_name)) {
    group.builder.Withdraw(call.device_name);
  }
  return true;
}

bool LedGroups::LeaveInstance(LedGroup& group, const WaitingCall& call,
                              LeaderOutbox* outbox) {
  const InstanceKey key = call.request->instance_key;
  const auto found = group.instances.find(key);
  if (found == group.instances.end()) return false;
  LedInstance& instance = *found->second;
  if (!instance.waiting.Remove(call)) return false;
  if (instance.all_arrived()) return true;  // The instance is being settled.
  const int rank = group.rank_of_device.at(call.device_name);
  const bool was_last = !instance.waiting.HasCallOf(call.device_name);
  if (was_last || !call.requests_once) --instance.num_calls[rank];
  if (was_last) {
    outbox->dropped.push_back(std::move(instance.requests[rank]));
    --instance.num_arrived;
  }
  if (instance.num_arrived == 0) DropInstance(group, key, outbox);
  return true;
}

void LedGroups::ForgetOldInstances(LeaderOutbox* outbox) {
  struct Idle {
    LedGroup* group;
    InstanceKey key;
    uint64_t last_used;
    size_t num_entries;
  };
  std::vector<Idle> idle;
  for (const auto& [group_key, group] : groups_) {
    for (const auto& [key, instance] : group->instances) {
      if (instance->completed.empty() || !AreEqual(instance->num_calls)) {
        continue;
      }
      idle.push_back(
          {group.get(), key, instance->last_used, instance->num_entries});
    }
  }
  std::sort(idle.begin(), idle.end(), [](const Idle& a, const Idle& b) {
    return a.last_used > b.last_used;
  });
  size_t num_newer_entries = 0;
  for (const Idle& instance : idle) {
    if (num_newer_entries >= limits_.max_entries / 2) {
      DropInstance(*instance.group, instance.key, outbox);
    }
    num_newer_entries += instance.num_entries;
  }
  next_sweep_ = std::max(limits_.max_entries, 2 * num_entries_);
}

size_t LedGroups::num_instances() const {
  size_t total = 0;
  for (const auto& [key, group] : groups_) total += group->instances.size();
  return total;
}

}  // namespace tutti
