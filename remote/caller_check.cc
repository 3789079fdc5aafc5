#include "remote/caller_check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace tutti {

absl::Status CheckRecvRequest(const ClusterSpec& cluster,
                              const CollGroupParams& group,
                              const ControlCaller& caller, const BufKey& key) {
  const auto& members = group.members;
  const auto is_rank = [&members](int32_t rank) {
    return rank >= 0 && static_cast<size_t>(rank) < members.size();
  };
  if (!is_rank(key.from) || !is_rank(key.to)) {
    return absl::InvalidArgumentError(absl::StrCat(
        ToString(key), ": the group has ", members.size(), " ranks"));
  }
  const DeviceAttributes& receiver = members[key.to].device;
  const DeviceAttributes& sender = members[key.from].device;
  const auto receiving_task = cluster.TaskOf(receiver.name);
  const auto sending_task = cluster.TaskOf(sender.name);
  if (!receiving_task.ok() || *receiving_task != caller.task) {
    return absl::PermissionDeniedError(absl::StrCat(
        ToString(key), ": rank ", key.to, " is ", receiver.name.ToString(),
        ", but ", cluster.Label(caller.task), " asks"));
  }
  if (receiver.incarnation != caller.incarnation) {
    return absl::FailedPreconditionError(absl::StrCat(
        ToString(key), ": ", cluster.Label(caller.task),
        " restarted: the group has its incarnation ", receiver.incarnation,
        ", but incarnation ", caller.incarnation, " asks"));
  }
  if (!sending_task.ok() || *sending_task != cluster.this_task) {
    return absl::InvalidArgumentError(absl::StrCat(
        ToString(key), ": rank ", key.from, " is ", sender.name.ToString(),
        ", not in ", cluster.Label(cluster.this_task)));
  }
  return absl::OkStatus();
}

absl::Status CheckIsInGroup(const ClusterSpec& cluster,
                            const CollGroupParams& group,
                            const ControlCaller& caller) {
  const bool is_in_group =
      std::any_of(group.members.begin(), group.members.end(),
                  [&](const CollGroupMember& member) {
                    const auto task = cluster.TaskOf(member.device.name);
                    return task.ok() && *task == caller.task &&
                           member.device.incarnation == caller.incarnation;
                  });
  if (is_in_group) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      cluster.Label(caller.task), ", incarnation ", caller.incarnation,
      ", is not in group ", group.key, ", generation ", group.generation));
}

}  // namespace tutti
