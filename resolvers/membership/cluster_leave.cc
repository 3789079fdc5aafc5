#include "resolvers/membership/cluster_leave.h"

#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/callbacks.h"
#include "framework/base/rank_list.h"
#include "resolvers/messages/control_codec.h"

namespace tutti {
namespace {

constexpr size_t kAll = std::numeric_limits<size_t>::max();

// Number of missing tasks that an answer names.
constexpr size_t kMaxNamed = 16;

}  // namespace

std::shared_ptr<ClusterLeave> ClusterLeave::Create(Options options) {
  const std::shared_ptr<ClusterLeave> leave(
      new ClusterLeave(std::move(options)));
  leave->answers_ = std::make_shared<HeldAnswers>(
      leave->options_.environment.clock, "goodbye",
      [weak_leave = std::weak_ptr<ClusterLeave>(leave)](
          const ControlCaller& caller) -> ControlAnswer {
        const auto alive = weak_leave.lock();
        if (alive != nullptr) return alive->Reply(caller);
        return absl::CancelledError("the task shuts down");
      });
  return leave;
}

ClusterLeave::ClusterLeave(Options options)
    : options_(std::move(options)), tasks_(options_.cluster.num_tasks()) {}

void ClusterLeave::Leave(absl::Time deadline, StatusCallback done) {
  absl::Status refused;
  {
    MutexLock lock(&mu_);
    refused = MayLeave();
    if (refused.ok()) {
      leave_ = std::make_shared<Waiting>();
      leave_->done = std::move(done);
      leave_->deadline = deadline;
      leave_->alarm = options_.environment.clock->CallAt(
          deadline, IfAlive(weak_from_this(), &ClusterLeave::OnDeadline));
      for (Task& task : tasks_) WaitForLate(task);
    }
  }
  if (!refused.ok()) return std::move(done)(std::move(refused));
  SayGoodbye();
  EndIfDone();
  NotifyWaits();
}

absl::Status ClusterLeave::MayLeave() const {
  if (!end_.ok()) return end_;
  if (leave_ == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(options_.cluster.Label(options_.cluster.this_task),
                   " is leaving already"));
}

// Also true if no task can lead: nobody else then answers this one.
bool ClusterLeave::Leads() const {
  const auto leader = options_.leadership->leader();
  return !leader.ok() || *leader == options_.cluster.this_task;
}

void ClusterLeave::End(const absl::Status& reason) {
  WaitingPtr leave;
  {
    MutexLock lock(&mu_);
    if (!end_.ok()) return;
    end_ = reason;
    leave = Take();
  }
  Finish(leave, reason);
}

ClusterLeave::WaitingPtr ClusterLeave::Take() {
  if (leave_ == nullptr) return nullptr;
  options_.environment.clock->Cancel(leave_->alarm);
  options_.environment.clock->Cancel(leave_->say_again);
  return std::exchange(leave_, nullptr);
}

void ClusterLeave::Finish(const WaitingPtr& leave, absl::Status status) {
  if (leave == nullptr) return;
  if (leave->call != nullptr) {
    leave->call->Cancel(absl::CancelledError("this task has left"));
  }
  std::move(leave->done)(std::move(status));
}

// --- Tasks that do not lead --------------------------------------------------

// Does nothing if this task leads, or says Goodbye already.
void ClusterLeave::SayGoodbye() {
  if (Leads()) return;
  const auto leader = options_.leadership->leader();
  WaitingPtr leave;
  {
    MutexLock lock(&mu_);
    if (leave_ == nullptr || leave_->leader >= 0 || !leader.ok()) return;
    leave_->leader = *leader;
    leave_->call = std::make_shared<Cancellation>();
    leave = leave_;
  }
  proto::ControlRequest request;
  request.mutable_goodbye()->set_hold_ms(
      static_cast<int>(absl::ToInt64Milliseconds(options_.hold)));
  options_.channel->Call(
      *leader, std::move(request),
      {.deadline = leave->deadline, .cancellation = leave->call},
      [self = shared_from_this(), leave](const ControlAnswer& reply) {
        self->OnReply(leave, reply);
      });
  NotifyWaits();
}

void ClusterLeave::OnReply(const WaitingPtr& leave,
                           const ControlAnswer& reply) {
  const auto missing =
      reply.ok()
          ? DecodeTasks(options_.cluster, reply->goodbye().missing_tasks())
          : reply.status();
  WaitingPtr ended;
  {
    MutexLock lock(&mu_);
    if (leave_ != leave) return;
    if (missing.ok() && missing->empty()) {
      ended = Take();
    } else {
      leave->obstacle =
          missing.ok()
              ? absl::StrCat(LabelsOf(*missing), " did not say so")
              : absl::StrCat(options_.cluster.Label(leave->leader),
                             ", which leads, does not take its goodbye: ",
                             missing.status().message());
      Clock* const clock = options_.environment.clock;
      leave->say_again =
          clock->CallAt(clock->Now() + DefaultTime("call again"),
                        IfAlive(weak_from_this(), [leave](ClusterLeave& self) {
                          {
                            MutexLock lock(&self.mu_);
                            leave->leader = -1;
                          }
                          self.SayGoodbye();
                        }));
    }
  }
  Finish(ended, absl::OkStatus());
}

// --- The leader --------------------------------------------------------------

void ClusterLeave::OnGoodbye(const ControlCaller& process,
                             const proto::Goodbye& message,
                             const std::shared_ptr<Cancellation>& withdrawn,
                             ControlDone done) {
  if (!Leads()) {
    return std::move(done)(absl::UnavailableError(
        absl::StrCat(options_.cluster.Label(options_.cluster.this_task),
                     " does not lead, and takes no goodbye")));
  }
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
  answers_->Add(process, message.hold_ms(), withdrawn, std::move(done));
  EndIfDone();
}

ControlAnswer ClusterLeave::Reply(const ControlCaller& caller) {
  proto::ControlReply reply;
  proto::GoodbyeReply* const goodbye = reply.mutable_goodbye();
  MutexLock lock(&mu_);
  std::vector<int> missing = Missing(kMaxNamed);
  if (leave_ == nullptr) missing.push_back(options_.cluster.this_task);
  for (int task : missing) goodbye->add_missing_tasks(task);
  if (missing.empty()) told_.insert(caller.task);
  return reply;
}

void ClusterLeave::EndIfDone() {
  const auto all_are_done = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return leave_ != nullptr && Missing(1).empty();
  };
  if (!Leads()) return;
  {
    MutexLock lock(&mu_);
    if (!all_are_done()) return;
  }
  answers_->Release();
  WaitingPtr ended;
  {
    MutexLock lock(&mu_);
    if (all_are_done() && Untold(1).empty()) ended = Take();
  }
  ended == nullptr ? NotifyWaits() : Finish(ended, absl::OkStatus());
}

// --- Processes ---------------------------------------------------------------

void ClusterLeave::OnFound(const ControlCaller& process) {
  MutexLock lock(&mu_);
  Task& task = tasks_[process.task];
  if (task.lost_soon.erase(process.incarnation) > 0) return;
  task.late.insert(process.incarnation);
  if (leave_ == nullptr) WaitForLate(task);
}

// Waits for processes that were found while this task was leaving.
void ClusterLeave::WaitForLate(Task& task) {
  for (const uint64_t incarnation : task.late) {
    task.present[incarnation] = task.goodbye_soon.erase(incarnation) > 0;
  }
  task.late.clear();
}

void ClusterLeave::OnLost(const ControlCaller& process) {
  const uint64_t incarnation = process.incarnation;
  std::shared_ptr<Cancellation> call;
  {
    MutexLock lock(&mu_);
    Task& task = tasks_[process.task];
    if (task.present.erase(incarnation) + task.late.erase(incarnation) == 0) {
      task.lost_soon.insert(incarnation);
    }
    task.goodbye_soon.erase(incarnation);
    task.has_ended = true;
    if (leave_ != nullptr && leave_->leader == process.task) {
      call = leave_->call;
    }
  }
  if (call != nullptr) {
    call->Cancel(absl::UnavailableError(
        absl::StrCat(options_.cluster.Label(process.task), " was lost")));
  }
  SayGoodbye();
  EndIfDone();
  NotifyWaits();
}

std::vector<int> ClusterLeave::WaitsFor() {
  const bool leads = Leads();
  MutexLock lock(&mu_);
  if (leave_ == nullptr) return {};
  if (!leads) {
    return leave_->leader < 0 ? std::vector<int>()
                              : std::vector<int>{leave_->leader};
  }
  std::vector<int> missing = Missing(kAll);
  return missing.empty() ? Untold(kAll) : missing;
}

std::vector<int> ClusterLeave::Missing(size_t most) const {
  std::vector<int> missing;
  for (int task = 0; task < options_.cluster.num_tasks(); ++task) {
    if (missing.size() == most) break;
    if (task != options_.cluster.this_task && !tasks_[task].is_gone()) {
      missing.push_back(task);
    }
  }
  return missing;
}

std::vector<int> ClusterLeave::Untold(size_t most) const {
  std::vector<int> untold;
  for (int task = 0; task < options_.cluster.num_tasks(); ++task) {
    if (untold.size() == most) break;
    if (!tasks_[task].present.empty() && !told_.contains(task)) {
      untold.push_back(task);
    }
  }
  return untold;
}

std::string ClusterLeave::LabelsOf(const std::vector<int>& tasks) const {
  return ShortList(tasks.size(),
                   [&](size_t i) { return options_.cluster.Label(tasks[i]); });
}

void ClusterLeave::OnDeadline() {
  const bool leads = Leads();
  WaitingPtr leave;
  std::string obstacle;
  {
    MutexLock lock(&mu_);
    leave = Take();
    if (leave == nullptr) return;
    const std::vector<int> missing = Missing(kAll);
    if (!leads) {
      obstacle = leave->obstacle.empty() ? "the leader has not answered"
                                         : leave->obstacle;
    } else if (missing.empty()) {
      obstacle = absl::StrCat(LabelsOf(Untold(kAll)), " did not hear so");
    } else {
      obstacle = absl::StrCat(LabelsOf(missing), " did not say so");
    }
  }
  Finish(leave, absl::DeadlineExceededError(absl::StrCat(
                    options_.cluster.Label(options_.cluster.this_task),
                    " is done, but ", obstacle)));
}

}  // namespace tutti
