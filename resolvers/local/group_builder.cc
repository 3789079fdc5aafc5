#include "resolvers/local/group_builder.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/rank_list.h"
#include "framework/base/status_macros.h"
#include "framework/collective/group_resources.h"
#include "resolvers/local/group_order.h"
#include "tutti/params.h"

namespace tutti {

absl::Status GroupBuilder::CheckMatches(
    const DeviceAttributes& device, const CollectiveRequest& request) const {
  const std::string name = device.name.ToString();
  if (request.group_size != size_) {
    return Invalid(": ", name, " asks for size ", request.group_size, ", but ",
                   first_name(), " for size ", size_);
  }
  if (request.device_type != device_type_) {
    return Invalid(": ", name, " asks for device type ", request.device_type,
                   ", but ", first_name(), " for ", device_type_);
  }
  if (device.name.type != device_type_) {
    return Invalid(" is of device type ", device_type_, ", but ", name,
                   " is not");
  }
  return absl::OkStatus();
}

absl::Status GroupBuilder::CheckRank(const DeviceAttributes& device,
                                     int rank) const {
  if (members_.empty()) return absl::OkStatus();
  const std::string name = device.name.ToString();
  const Member& first = members_[0];
  if ((first.rank < 0) != (rank < 0)) {
    return Invalid(": all members give a rank or none does: ",
                   rank < 0 ? first_name() : name, " gives rank ",
                   std::max(rank, first.rank), ", but ",
                   rank < 0 ? name : first_name(), " gives none");
  }
  const auto taken = index_by_rank_.find(rank);
  if (taken == index_by_rank_.end()) return absl::OkStatus();
  return Invalid(": ", members_[taken->second].device.name.ToString(), " and ",
                 name, " both ask for rank ", rank);
}

void GroupBuilder::SetIndex(int index) {
  const Member& member = members_[index];
  index_by_name_[member.device.name.ToString()] = index;
  if (member.rank >= 0) index_by_rank_[member.rank] = index;
}

absl::Status GroupBuilder::Join(const DeviceAttributes& device,
                                const CollectiveRequest& request) {
  const std::string name = device.name.ToString();
  if (members_.empty()) {
    key_ = request.group_key;
    size_ = request.group_size;
    device_type_ = request.device_type;
  }
  RETURN_IF_ERROR(CheckMatches(device, request));
  const auto known = index_by_name_.find(name);
  if (known != index_by_name_.end()) {
    return CheckSame(members_[known->second], device, request.rank);
  }
  if (complete()) {
    return Invalid(" has all of its ", size_, " members, the first of them ",
                   first_name(), ", but ", name, " wants to join");
  }
  RETURN_IF_ERROR(CheckRank(device, request.rank));
  members_.push_back({device, request.rank});
  SetIndex(static_cast<int>(members_.size()) - 1);
  return absl::OkStatus();
}

absl::Status GroupBuilder::CheckSame(const Member& member,
                                     const DeviceAttributes& device,
                                     int rank) const {
  const std::string name = device.name.ToString();
  if (member.device.incarnation != device.incarnation) {
    return absl::FailedPreconditionError(absl::StrCat(
        "group ", key_, ": ", name, " restarted: it joined with incarnation ",
        member.device.incarnation, " and comes back with ",
        device.incarnation));
  }
  if (member.rank != rank) {
    const auto requested_rank = [](int rank) {
      return rank < 0 ? std::string("no rank") : absl::StrCat("rank ", rank);
    };
    return Invalid(": ", name, " joined asking for ",
                   requested_rank(member.rank), " and now asks for ",
                   requested_rank(rank));
  }
  return absl::OkStatus();
}

void GroupBuilder::Withdraw(absl::string_view full_name) {
  const auto found = index_by_name_.find(full_name);
  if (found == index_by_name_.end()) return;
  const int index = found->second;
  index_by_name_.erase(found);
  index_by_rank_.erase(members_[index].rank);
  if (index != static_cast<int>(members_.size()) - 1) {
    members_[index] = std::move(members_.back());
    SetIndex(index);
  }
  members_.pop_back();
}

bool GroupBuilder::HasMemberOfTask(absl::string_view task_name,
                                   uint64_t incarnation) const {
  return std::any_of(
      members_.begin(), members_.end(), [&](const Member& member) {
        return member.device.name.TaskName() == task_name &&
               (incarnation == 0 || member.device.incarnation == incarnation);
      });
}

std::vector<int> GroupBuilder::RankOrder() const {
  std::vector<DeviceAttributes> devices;
  devices.reserve(members_.size());
  for (const Member& member : members_) devices.push_back(member.device);
  if (members_[0].rank < 0) return DefaultRankOrder(devices);
  std::vector<int> order(members_.size());
  for (size_t i = 0; i < members_.size(); ++i) {
    order[members_[i].rank] = static_cast<int>(i);
  }
  return order;
}

absl::StatusOr<CollGroupParams> GroupBuilder::Build(uint64_t generation) const {
  CollGroupParams group;
  group.key = key_;
  group.generation = generation;
  group.device_type = device_type_;
  absl::flat_hash_map<std::string, int> number_of_task;
  std::vector<int> task_of_rank;
  for (const int index : RankOrder()) {
    const DeviceAttributes& device = members_[index].device;
    group.members.push_back({device});
    const int next = static_cast<int>(number_of_task.size());
    task_of_rank.push_back(
        number_of_task.emplace(device.name.TaskName(), next).first->second);
  }
  ASSIGN_OR_RETURN(auto layout, GroupLayout::Create(task_of_rank));
  group.layout = std::make_shared<const GroupLayout>(std::move(layout));
  group.cancellation = std::make_shared<Cancellation>();
  group.resources = std::make_shared<GroupResources>();
  return group;
}

std::string GroupBuilder::Describe() const {
  const auto name = [this](size_t i) {
    return members_[i].device.name.ToString();
  };
  return absl::StrCat(members_.size(), " of ", size_,
                      " members had joined group ", key_, " (",
                      ShortList(members_.size(), name), ")");
}

CollTaskParams MembersOfTask(const CollGroupParams& group,
                             absl::string_view task_name) {
  CollTaskParams task;
  for (const CollGroupMember& member : group.members) {
    const bool is_local =
        task_name.empty() || member.device.name.TaskName() == task_name;
    task.is_local.push_back(is_local);
    task.num_local += is_local ? 1 : 0;
  }
  return task;
}

std::set<int> TasksOf(const CollGroupParams& group) {
  std::set<int> tasks;
  for (const CollGroupMember& member : group.members) {
    tasks.insert(member.device.name.task);
  }
  return tasks;
}

std::vector<int> NextTasksOf(const CollGroupParams& group, int task,
                             int count) {
  const std::set<int> tasks = TasksOf(group);
  const auto self = tasks.find(task);
  std::vector<int> next;
  if (self == tasks.end()) return next;
  for (auto it = std::next(self); static_cast<int>(next.size()) < count; ++it) {
    if (it == tasks.end()) it = tasks.begin();
    if (it == self) break;
    next.push_back(*it);
  }
  return next;
}

}  // namespace tutti
