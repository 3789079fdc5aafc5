#include <algorithm>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tutti/params.h"

namespace tutti {

absl::StatusOr<GroupLayout> GroupLayout::Create(
    absl::Span<const int> task_of_rank) {
  if (task_of_rank.empty()) {
    return absl::InvalidArgumentError("a group layout needs at least one rank");
  }
  return GroupLayout(task_of_rank);
}

GroupLayout GroupLayout::Uniform(int num_tasks, int devices_per_task) {
  const int devices = std::max(devices_per_task, 1);
  std::vector<int> task_of_rank(static_cast<size_t>(std::max(num_tasks, 1)) *
                                devices);
  for (size_t rank = 0; rank < task_of_rank.size(); ++rank) {
    task_of_rank[rank] = static_cast<int>(rank) / devices;
  }
  return GroupLayout(task_of_rank);
}

GroupLayout::GroupLayout(absl::Span<const int> task_of_rank) {
  absl::flat_hash_map<int, int> index_of_task;
  task_of_rank_.reserve(task_of_rank.size());
  for (int task : task_of_rank) {
    const auto [entry, is_new] =
        index_of_task.try_emplace(task, static_cast<int>(tasks_.size()));
    if (is_new) tasks_.emplace_back();
    tasks_[entry->second].push_back(size());
    task_of_rank_.push_back(entry->second);
  }
}

std::string GroupLayout::ToString() const {
  const bool uniform = std::all_of(
      tasks_.begin(), tasks_.end(),
      [this](const auto& ranks) { return ranks.size() == tasks_[0].size(); });
  if (uniform) return absl::StrCat(num_tasks(), "x", tasks_[0].size());
  return absl::StrJoin(tasks_, "+",
                       [](std::string* out, const std::vector<int>& ranks) {
                         absl::StrAppend(out, ranks.size());
                       });
}

}  // namespace tutti
