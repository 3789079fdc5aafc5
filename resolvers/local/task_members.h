#ifndef TUTTI_RESOLVERS_LOCAL_TASK_MEMBERS_H_
#define TUTTI_RESOLVERS_LOCAL_TASK_MEMBERS_H_

#include <set>

#include "absl/strings/string_view.h"
#include "tutti/params.h"

namespace tutti {

// Marks the members that are devices of the task
// ("/job:worker/replica:0/task:3"); all members if the name is empty.
CollTaskParams MembersOfTask(const CollGroupParams& group,
                             absl::string_view task_name);

// Returns the tasks that have members.
std::set<int> TasksOf(const CollGroupParams& group);

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LOCAL_TASK_MEMBERS_H_
