#include "resolvers/leader/leadership.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace tutti {

int Leadership::FirstNotLost() const {
  int first = 0;
  for (int task : lost_) {
    if (task != first) break;
    ++first;
  }
  return first;
}

absl::StatusOr<int> Leadership::leader() const {
  MutexLock lock(&mu_);
  const int first = FirstNotLost();
  if (first < num_tasks_) return first;
  return absl::UnavailableError(
      absl::StrCat("no task can lead: each of the ", num_tasks_,
                   " tasks of the job has been lost; start all of them again"));
}

bool Leadership::MarkLost(int task) {
  if (task < 0 || task >= num_tasks_) return false;
  MutexLock lock(&mu_);
  const int before = FirstNotLost();
  lost_.insert(task);
  return FirstNotLost() != before;
}

std::vector<int> Leadership::lost_tasks() const {
  MutexLock lock(&mu_);
  return std::vector<int>(lost_.begin(), lost_.end());
}

}  // namespace tutti
