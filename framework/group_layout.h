#ifndef TUTTI_FRAMEWORK_GROUP_LAYOUT_H_
#define TUTTI_FRAMEWORK_GROUP_LAYOUT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tutti {

// How the ranks of a group lie on tasks (processes): all that an algorithm may
// know of the machine. Immutable.
class GroupLayout {
 public:
  // `task_of_rank[r]` is any number that names the task of rank r. Errors:
  // INVALID_ARGUMENT if there is no rank.
  static absl::StatusOr<GroupLayout> Create(absl::Span<const int> task_of_rank);

  // Ranks 0..d-1 on the first task, d..2d-1 on the second and so on. Values
  // below one count as one.
  static GroupLayout Uniform(int num_tasks, int devices_per_task);

  int size() const { return static_cast<int>(task_of_rank_.size()); }
  int num_tasks() const { return static_cast<int>(tasks_.size()); }

  // Which entry of tasks() the rank is in.
  int task_of(int rank) const { return task_of_rank_[rank]; }

  // The ranks of each task in increasing order; tasks by their lowest rank.
  const std::vector<std::vector<int>>& tasks() const { return tasks_; }

  // "4x2" (tasks x devices) where all tasks have the same number, else the
  // numbers: "3+1+2".
  std::string ToString() const;

  friend bool operator==(const GroupLayout& a, const GroupLayout& b) {
    return a.task_of_rank_ == b.task_of_rank_;
  }

 private:
  explicit GroupLayout(absl::Span<const int> task_of_rank);

  std::vector<int> task_of_rank_;
  std::vector<std::vector<int>> tasks_;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_GROUP_LAYOUT_H_
