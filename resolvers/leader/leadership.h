#ifndef TUTTI_RESOLVERS_LEADER_LEADERSHIP_H_
#define TUTTI_RESOLVERS_LEADER_LEADERSHIP_H_

#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/base/mutex.h"

namespace tutti {

// Choice of the task that leads all groups: the lowest task that has never been
// lost. A restarted task has forgotten its groups and does not lead again.
// Thread-safe.
class Leadership {
 public:
  explicit Leadership(int num_tasks) : num_tasks_(num_tasks) {}

  // Returns the task that leads. Errors: UNAVAILABLE once every task has been
  // lost.
  absl::StatusOr<int> leader() const ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    const int first = FirstNotLost();
    if (first < num_tasks_) return first;
    return absl::UnavailableError(absl::StrCat(
        "no task can lead: each of the ", num_tasks_,
        " tasks of the job has been lost; start all of them again"));
  }

  // Returns true if this changes the leader. Ignores numbers that are no task.
  bool MarkLost(int task) ABSL_LOCKS_EXCLUDED(mu_) {
    if (task < 0 || task >= num_tasks_) return false;
    MutexLock lock(&mu_);
    const int before = FirstNotLost();
    lost_.insert(task);
    return FirstNotLost() != before;
  }

  // Returns the lost tasks in order.
  std::vector<int> lost_tasks() const ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return {lost_.begin(), lost_.end()};
  }

 private:
  int FirstNotLost() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    int first = 0;
    while (lost_.contains(first)) ++first;
    return first;
  }

  const int num_tasks_;
  mutable Mutex mu_;
  std::set<int> lost_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LEADER_LEADERSHIP_H_
