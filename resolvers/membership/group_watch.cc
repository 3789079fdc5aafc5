#include "resolvers/membership/group_watch.h"

#include "resolvers/local/group_builder.h"

namespace tutti {

void GroupWatch::OnGroupChanged(GroupKey key, uint64_t generation) {
  // Under the mutex: an end of the generation from now on is handled later.
  MutexLock lock(&mu_);
  const auto group = directory_->Find(key, generation);
  const auto known = groups_.find(key);
  if (known != groups_.end()) {
    if (known->second.generation > generation) return;
    Remove(key);
  }
  if (!group.ok()) return;
  Watched& watched = groups_[key];
  watched.generation = generation;
  watched.tasks = NextTasksOf(**group, this_task_, kNumNextTasks);
  for (int task : watched.tasks) ++num_groups_of_task_[task];
}

void GroupWatch::Remove(GroupKey key) {
  const auto group = groups_.find(key);
  for (int task : group->second.tasks) {
    const auto num_groups = num_groups_of_task_.find(task);
    if (--num_groups->second == 0) num_groups_of_task_.erase(num_groups);
  }
  groups_.erase(group);
}

std::vector<int> GroupWatch::tasks() const {
  MutexLock lock(&mu_);
  std::vector<int> tasks;
  for (const auto& [task, num_groups] : num_groups_of_task_) {
    tasks.push_back(task);
  }
  return tasks;
}

}  // namespace tutti
