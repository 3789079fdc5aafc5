#include "resolvers/local/task_members.h"

namespace tutti {

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

}  // namespace tutti
