#include "resolvers/leader/settled_groups.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "framework/collective/member_params.h"
#include "framework/collective/request_fields.h"
#include "resolvers/local/group_builder.h"

namespace tutti {

SettledGroups::Answer SettledGroups::Member::AnswerTo(
    const CollectiveRequest& other) const {
  RETURN_IF_ERROR(CheckSameRequest(*request, other));
  return params;
}

SettledGroups::GroupPtr SettledGroups::Find(GroupKey key) const {
  const auto found = groups_.find(key);
  return found == groups_.end() ? nullptr : found->second;
}

std::optional<SettledGroups::Answer> SettledGroups::FindAnswer(
    const CollectiveRequest& request, absl::string_view device_name,
    bool group_only) const {
  const auto group = Find(request.group_key);
  // An ended group may still be here.
  if (group == nullptr || group->params->cancellation->cancelled()) {
    return std::nullopt;
  }
  if (group_only) {
    const auto rank = group->rank_of_device.find(device_name);
    if (rank == group->rank_of_device.end()) return std::nullopt;
    return Membership(*group, rank->second, request);
  }
  const auto instance = group->instances.find(request.instance_key);
  if (instance == group->instances.end()) return std::nullopt;
  const auto member = instance->second.members.find(device_name);
  if (member == instance->second.members.end()) return std::nullopt;
  return member->second.AnswerTo(request);
}

SettledGroups::Answer SettledGroups::Membership(
    const Group& group, int rank, const CollectiveRequest& request) {
  const CollGroupParams& params = *group.params;
  if (request.group_size == params.size() &&
      request.device_type == params.device_type &&
      (request.rank == -1 || request.rank == rank)) {
    return MembershipIn(group.params, group.task, rank);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("group ", params.key, " has ", params.size(),
                   " members of type ", params.device_type, "; rank ", rank,
                   " of them now asks for ", request.group_size, " of type ",
                   request.device_type, ", as rank ", request.rank));
}

bool SettledGroups::WasSettledBy(int leader,
                                 const CollGroupParams& group) const {
  const auto found = Find(group.key);
  return found != nullptr && found->leader == leader &&
         found->params->generation == group.generation;
}

SettledGroups::GroupPtr SettledGroups::Add(
    std::shared_ptr<const CollGroupParams> group, GroupPtr* replaced) {
  GroupPtr& entry = groups_[group->key];
  if (entry != nullptr) {
    if (entry->params->generation > group->generation) return nullptr;
  }
  failed_generations_.erase(group->key);
  reformed_.erase(group->key);
  if (entry != nullptr) {
    if (entry->params == group) return entry;
    num_entries_ -= NumEntries(*entry);
  }
  *replaced = std::move(entry);
  entry = std::make_shared<Group>();
  entry->task =
      std::make_shared<const CollTaskParams>(MembersOfTask(*group, task_name_));
  for (int rank = 0; rank < group->size(); ++rank) {
    if (!entry->task->is_local[rank]) continue;
    entry->rank_of_device[group->members[rank].device.name.ToString()] = rank;
  }
  entry->params = std::move(group);
  return entry;
}

SettledGroups::GroupPtr SettledGroups::Remove(GroupKey key,
                                              uint64_t generation) {
  const auto found = groups_.find(key);
  if (found == groups_.end() ||
      found->second->params->generation != generation) {
    return nullptr;
  }
  GroupPtr removed = std::move(found->second);
  groups_.erase(found);
  num_entries_ -= NumEntries(*removed);
  return removed;
}

SettledGroups::Former SettledGroups::BeginAgain(GroupKey key) {
  reformed_.insert(key);
  Former former;
  if (const auto group = Find(key)) former.group = group->params;
  const auto failed = failed_generations_.find(key);
  if (failed != failed_generations_.end()) {
    former.failed_generation = failed->second;
    failed_generations_.erase(failed);
  }
  return former;
}

void SettledGroups::AddMember(Group& group, const std::string& device_name,
                              Member member) {
  const auto found = groups_.find(group.params->key);
  if (found == groups_.end() || found->second.get() != &group) return;
  const auto& params = member.params->instance;
  Instance& instance = group.instances[params->key];
  if (instance.params == nullptr) {
    instance.params = params;
    num_entries_ += params->rows.size();
  }
  const bool is_new =
      instance.members.insert_or_assign(device_name, std::move(member)).second;
  num_entries_ += is_new ? 1 : 0;
}

size_t SettledGroups::NumEntries(const Group& group) const {
  size_t total = 0;
  for (const auto& [key, instance] : group.instances) {
    total += instance.members.size() + instance.params->rows.size();
  }
  return total;
}

}  // namespace tutti
