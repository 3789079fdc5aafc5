#include "resolvers/membership/cluster_join.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/callbacks.h"
#include "framework/base/rank_list.h"
#include "resolvers/messages/control_codec.h"

namespace tutti {
namespace {

// Returns true for errors that repetition cannot cure.
bool IsFinal(const absl::Status& status) {
  return absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status) ||
         absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status);
}

}  // namespace

void ClusterJoin::Start(Options options, StatusCallback done) {
  const std::shared_ptr<ClusterJoin> join(
      new ClusterJoin(std::move(options), std::move(done)));
  join->Begin();
}

ClusterJoin::ClusterJoin(Options options, StatusCallback done)
    : options_(std::move(options)),
      began_(options_.environment.clock->Now()),
      done_(std::move(done)) {
  missing_ = OtherTasks();
}

std::set<int> ClusterJoin::OtherTasks() const {
  std::set<int> tasks;
  for (int task = 0; task < options_.cluster.num_tasks(); ++task) {
    if (task != options_.cluster.this_task) tasks.insert(task);
  }
  return tasks;
}

void ClusterJoin::Begin() {
  bool is_alone = false;
  {
    MutexLock lock(&mu_);
    is_alone = missing_.empty();
    report_again_ = !is_alone;
    if (!is_alone && options_.deadline != absl::InfiniteFuture()) {
      alarm_ = options_.environment.clock->CallAt(
          options_.deadline,
          [self = shared_from_this()] { self->OnDeadline(); });
    }
  }
  if (is_alone) return End(absl::OkStatus());
  WatchCancellation();
  Report();
  SayHelloToLeader();
}

void ClusterJoin::WatchCancellation() {
  if (options_.cancellation == nullptr) return;
  const Cancellation::WatchId watch = options_.cancellation->Watch(
      IfAlive(weak_from_this(), &ClusterJoin::End));
  MutexLock lock(&mu_);
  watch_ = watch;
}

void ClusterJoin::SayHelloToLeader() {
  const auto leader = options_.leader();
  if (!leader.ok() || *leader == options_.cluster.this_task) {
    return SayHelloToAll();
  }
  int task = *leader;
  absl::Duration hold = options_.hold;
  {
    MutexLock lock(&mu_);
    leader_ = *leader;
    if (std::exchange(leader_is_silent_, false)) {
      hold = absl::ZeroDuration();
      task = NextOther();
    }
  }
  SayHello(task, hold,
           HasOthers()
               ? std::min(options_.deadline,
                          options_.environment.clock->Now() + 2 * options_.hold)
               : options_.deadline);
}

// Returns the task to call instead of the leader. If there are only the two,
// that is the leader again.
int ClusterJoin::NextOther() {
  const int num_tasks = options_.cluster.num_tasks();
  for (int i = 0; i < num_tasks; ++i) {
    other_ = (other_ + 1) % num_tasks;
    if (other_ != leader_ && other_ != options_.cluster.this_task) {
      return other_;
    }
  }
  return leader_;
}

void ClusterJoin::SayHelloToAll() {
  std::set<int> tasks;
  {
    MutexLock lock(&mu_);
    says_to_all_ = true;
    tasks = missing_;
  }
  for (int task : tasks) {
    if (over_->cancelled()) return;
    SayHello(task, absl::ZeroDuration(), options_.deadline);
  }
}

void ClusterJoin::SayHello(int task, absl::Duration hold, absl::Time deadline) {
  bool waits_until_reachable = false;
  {
    MutexLock lock(&mu_);
    if (is_due_) return;
    ++num_calls_;
    // A call that fails at once leaves time for other tasks.
    waits_until_reachable = says_to_all_ || !HasOthers();
  }
  proto::ControlRequest request;
  *request.mutable_hello() = options_.hello;
  request.mutable_hello()->set_hold_ms(
      static_cast<int>(absl::ToInt64Milliseconds(hold)));
  options_.channel->Call(
      task, std::move(request),
      {.deadline = deadline,
       .cancellation = over_,
       .wait_until_reachable = waits_until_reachable,
       .to_any_process = true},
      [self = shared_from_this(), task](const ControlAnswer& reply) {
        self->OnReply(task, reply);
      });
}

void ClusterJoin::OnReply(int task, const ControlAnswer& reply) {
  if (over_->cancelled()) return;
  TakeReply(task, reply);
  bool is_overdue = false;
  {
    MutexLock lock(&mu_);
    is_overdue = --num_calls_ == 0 && is_due_;
  }
  if (is_overdue) EndOverdue();
}

// Waits for the calls, which have the same deadline: their errors say why no
// task has answered.
void ClusterJoin::OnDeadline() {
  {
    MutexLock lock(&mu_);
    is_due_ = true;
    if (num_calls_ > 0) return;
  }
  EndOverdue();
}

void ClusterJoin::TakeReply(int task, const ControlAnswer& reply) {
  if (!reply.ok()) return OnError(task, reply.status());
  const proto::HelloReply& hello = reply->hello();
  const auto lost = DecodeTasks(options_.cluster, hello.lost_tasks());
  if (!lost.ok()) return OnError(task, lost.status());
  const auto known = options_.heard(task, hello);
  if (!known.ok()) return OnError(task, known.status());
  bool is_complete = false, must_say_to_all = false;
  {
    MutexLock lock(&mu_);
    const size_t num_missing = missing_.size();
    if (hello.replaces() && !says_to_all_) {
      must_say_to_all = true;
      missing_ = OtherTasks();
    } else if (!says_to_all_) {
      for (int other : *known) missing_.erase(other);
      leader_has_answered_ |= task == leader_;
    }
    missing_.erase(task);
    for (int gone : *lost) missing_.erase(gone);
    if (missing_.size() != num_missing) report_again_ = true;
    is_complete = missing_.empty();
  }
  if (is_complete) return End(absl::OkStatus());
  Report();
  if (must_say_to_all) return SayHelloToAll();
  SayHelloAgain(task);
}

void ClusterJoin::OnError(int task, const absl::Status& status) {
  if (IsFinal(status)) {
    const std::string label = options_.cluster.Label(task);
    if (absl::StrContains(status.message(), label)) return End(status);
    return End(absl::Status(status.code(),
                            absl::StrCat(label, ": ", status.message())));
  }
  {
    MutexLock lock(&mu_);
    if (says_to_all_ || task == leader_) {
      last_error_ = std::string(status.message());
      leader_is_silent_ = true;
    }
  }
  SayHelloAgain(task);
}

// Says the next Hello soon: to the task, or to the leader.
void ClusterJoin::SayHelloAgain(int task) {
  MutexLock lock(&mu_);
  if (end_.has_value() || is_due_) return;
  if (says_to_all_ && !missing_.contains(task)) return;
  Clock* const clock = options_.environment.clock;
  say_again_[says_to_all_ ? task : leader_] = clock->CallAt(
      clock->Now() + DefaultTime("report again"),
      [self = shared_from_this(), task, all = says_to_all_] {
        if (self->over_->cancelled()) return;
        if (!all) return self->SayHelloToLeader();
        self->SayHello(task, absl::ZeroDuration(), self->options_.deadline);
      });
}

// Reports progress, one call at a time, and then runs `done`.
void ClusterJoin::Report() {
  report_.Run([this] {
    while (ReportNext()) {
    }
  });
}

// Returns false if there is nothing to report now, or after `done`.
bool ClusterJoin::ReportNext() {
  std::vector<int> missing;
  StatusCallback done;
  absl::Status end;
  {
    MutexLock lock(&mu_);
    if (done_ == nullptr) return false;
    if (std::exchange(report_again_, false)) {
      missing.assign(missing_.begin(), missing_.end());
    } else if (end_.has_value()) {
      done = std::exchange(done_, nullptr);
      end = *end_;
    } else {
      return false;
    }
  }
  if (done != nullptr) {
    std::move(done)(std::move(end));
    return false;
  }
  if (options_.progress != nullptr) options_.progress(missing);
  return true;
}

// Hints at task lists that differ in an address: other errors do not show it.
std::string ClusterJoin::HintAt(const std::vector<int>& missing) const {
  for (const int task : missing) {
    if (!options_.has_called(task)) continue;
    return absl::StrCat("; ", options_.cluster.Label(task),
                        " has called this task: is it at that address by its "
                        "own list of tasks, too?");
  }
  return "";
}

void ClusterJoin::EndOverdue() {
  std::vector<int> missing;
  std::string last_error;
  {
    MutexLock lock(&mu_);
    missing.assign(missing_.begin(), missing_.end());
    // Nobody has been asked about the others.
    if (!says_to_all_ && !leader_has_answered_) missing = {leader_};
    last_error = last_error_;
  }
  const auto label = [&](size_t i) {
    return options_.cluster.Label(missing[i]);
  };
  const std::string waited = absl::StrFormat(
      "%.1f s",
      absl::ToDoubleSeconds(options_.environment.clock->Now() - began_));
  if (options_.silent != nullptr) {
    for (const int task : missing) {
      options_.silent(task, absl::UnavailableError(absl::StrCat(
                                options_.cluster.Label(task),
                                " has never answered, for ", waited)));
    }
  }
  End(absl::DeadlineExceededError(absl::StrCat(
      options_.cluster.Label(options_.cluster.this_task), " waited ", waited,
      " for ", ShortList(missing.size(), label), ", which never answered",
      last_error.empty() ? "" : "; the last error was: ", last_error,
      HintAt(missing))));
}

void ClusterJoin::End(absl::Status status) {
  Cancellation::WatchId watch = 0;
  {
    MutexLock lock(&mu_);
    if (end_.has_value()) return;
    end_ = std::move(status);
    watch = watch_;
    Clock* const clock = options_.environment.clock;
    if (alarm_ != 0) clock->Cancel(alarm_);
    for (const auto& [task, alarm] : say_again_) clock->Cancel(alarm);
  }
  if (watch != 0) options_.cancellation->Unwatch(watch);
  over_->Cancel(absl::CancelledError("this task has joined, or given up"));
  Report();
}

}  // namespace tutti
