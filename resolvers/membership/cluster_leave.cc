#include "resolvers/membership/cluster_leave.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/callbacks.h"
#include "framework/base/rank_list.h"

namespace tutti {

ClusterLeave::ClusterLeave(Options options)
    : options_(std::move(options)), tasks_(options_.cluster.num_tasks()) {}

void ClusterLeave::Leave(absl::Time deadline, StatusCallback done) {
  const int num_tasks = options_.cluster.num_tasks();
  absl::Status refused;
  {
    MutexLock lock(&mu_);
    refused = MayLeave();
    if (refused.ok()) {
      std::swap(done_, done);
      Begin(deadline);
    }
  }
  if (!refused.ok()) return std::move(done)(std::move(refused));
  for (int task = 0; task < num_tasks; ++task) {
    if (task == options_.cluster.this_task) continue;
    proto::ControlRequest request;
    request.mutable_goodbye();
    // Errors are fine: a task that cannot be reached does not wait.
    options_.channel->Call(
        task, std::move(request), {.deadline = deadline},
        [self = shared_from_this(), task](const ControlAnswer&) {
          self->OnReported(task);
        });
  }
  EndIfDone();
}

absl::Status ClusterLeave::MayLeave() const {
  if (!end_.ok()) return end_;
  if (done_ == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(options_.cluster.Label(options_.cluster.this_task),
                   " is leaving already"));
}

void ClusterLeave::Begin(absl::Time deadline) {
  for (int task = 0; task < options_.cluster.num_tasks(); ++task) {
    WaitForLate(tasks_[task]);
    if (task != options_.cluster.this_task && !tasks_[task].is_lost) {
      unreported_.insert(task);
    }
  }
  alarm_ = options_.environment.clock->CallAt(
      deadline, IfAlive(weak_from_this(), &ClusterLeave::OnDeadline));
}

void ClusterLeave::End(const absl::Status& reason) {
  StatusCallback done;
  {
    MutexLock lock(&mu_);
    if (!end_.ok()) return;
    end_ = reason;
    if (done_ == nullptr) return;
    done = std::exchange(done_, nullptr);
    options_.environment.clock->Cancel(alarm_);
  }
  std::move(done)(reason);
}

void ClusterLeave::OnReported(int task) {
  {
    MutexLock lock(&mu_);
    unreported_.erase(task);
  }
  EndIfDone();
}

void ClusterLeave::OnFound(const ControlCaller& process) {
  MutexLock lock(&mu_);
  Task& task = tasks_[process.task];
  if (task.lost_soon.erase(process.incarnation) > 0) return;
  task.late.insert(process.incarnation);
  if (done_ == nullptr) WaitForLate(task);
}

// Waits for processes that were found while this task was leaving.
void ClusterLeave::WaitForLate(Task& task) {
  for (const uint64_t incarnation : task.late) {
    task.present[incarnation] = task.goodbye_soon.erase(incarnation) > 0;
    task.is_lost = false;
  }
  task.late.clear();
}

void ClusterLeave::OnLost(const ControlCaller& process) {
  const uint64_t incarnation = process.incarnation;
  {
    MutexLock lock(&mu_);
    Task& task = tasks_[process.task];
    if (task.present.erase(incarnation) + task.late.erase(incarnation) == 0) {
      task.lost_soon.insert(incarnation);
    }
    task.goodbye_soon.erase(incarnation);
    task.has_ended = true;
    if (task.present.empty()) {  // No process has taken its place.
      task.is_lost = true;
      unreported_.erase(process.task);
    }
  }
  EndIfDone();
}

void ClusterLeave::OnGoodbye(const ControlCaller& process) {
  {
    MutexLock lock(&mu_);
    Task& task = tasks_[process.task];
    const auto found = task.present.find(process.incarnation);
    if (found == task.present.end()) {
      task.goodbye_soon.insert(process.incarnation);
    } else {
      found->second = true;
    }
    task.has_ended = true;
  }
  EndIfDone();
}

std::vector<int> ClusterLeave::WaitsFor() {
  MutexLock lock(&mu_);
  if (done_ == nullptr) return {};
  const std::set<int> missing = Missing();
  return std::vector<int>(missing.begin(), missing.end());
}

std::set<int> ClusterLeave::Missing() const {
  std::set<int> missing;
  for (int task = 0; task < options_.cluster.num_tasks(); ++task) {
    if (task != options_.cluster.this_task && !tasks_[task].is_gone()) {
      missing.insert(task);
    }
  }
  return missing;
}

void ClusterLeave::EndIfDone() {
  StatusCallback done;
  {
    MutexLock lock(&mu_);
    if (done_ == nullptr || !unreported_.empty() || !Missing().empty()) return;
    done = std::exchange(done_, nullptr);
    options_.environment.clock->Cancel(alarm_);
  }
  std::move(done)(absl::OkStatus());
}

void ClusterLeave::OnDeadline() {
  StatusCallback done;
  std::vector<int> missing;
  {
    MutexLock lock(&mu_);
    if (done_ == nullptr) return;
    done = std::exchange(done_, nullptr);
    const std::set<int> tasks = Missing();
    missing.assign(tasks.begin(), tasks.end());
  }
  const auto label = [&](size_t i) {
    return options_.cluster.Label(missing[i]);
  };
  std::move(done)(absl::DeadlineExceededError(absl::StrCat(
      options_.cluster.Label(options_.cluster.this_task), " is done, but ",
      missing.empty() ? "others do not take its goodbye"
                      : ShortList(missing.size(), label) + " did not say so")));
}

}  // namespace tutti
