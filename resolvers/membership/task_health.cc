#include "resolvers/membership/task_health.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "framework/base/callbacks.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

constexpr size_t kMaxLostProcesses = 16;

// Marks the FAILED_PRECONDITION by which a task says that a process counts as
// lost; a transport also refuses with this code. The mark comes first, because
// a transport may cut off a long message.
constexpr absl::string_view kMustStartAgain =
    "a process that was lost must start again";

// Returns true for errors that a task that has answered before does not send.
bool IsOfAStranger(const absl::Status& status) {
  return absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status) ||
         (absl::IsFailedPrecondition(status) &&
          !absl::StrContains(status.message(), kMustStartAgain));
}

std::string Seconds(absl::Duration duration) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration));
}

}  // namespace

TaskHealth::TaskHealth(Options options)
    : options_(std::move(options)), tasks_(options_.cluster.num_tasks()) {}

TaskHealth::~TaskHealth() {
  absl::flat_hash_map<int, BeatPtr> beats;
  {
    MutexLock lock(&mu_);
    beats.swap(beats_);
  }
  for (const auto& [task, beat] : beats) {
    options_.environment.clock->Cancel(beat->alarm);
    beat->cancellation->Cancel(absl::CancelledError("shut down"));
  }
}

// --- Watched tasks ---------------------------------------------------------

void TaskHealth::Update() {
  update_.Run([this] { ApplyWatched(options_.watched()); });
}

void TaskHealth::ApplyWatched(const std::vector<int>& tasks) {
  std::vector<bool> is_watched(options_.cluster.num_tasks());
  std::vector<std::pair<int, BeatPtr>> added;
  {
    MutexLock lock(&mu_);
    for (int task : tasks) {
      if (task == options_.cluster.this_task ||
          tasks_[task].state == State::kLost) {
        continue;
      }
      is_watched[task] = true;
      const auto found = beats_.find(task);
      if (found != beats_.end()) {
        found->second->once = false;
      } else {
        added.emplace_back(task, AddBeat(task, /*once=*/false));
      }
    }
    // Heartbeats under way go on until they are answered: the task may be
    // unwatched because it is lost.
    std::vector<int> ended;
    for (const auto& [task, beat] : beats_) {
      if (is_watched[task]) continue;
      if (!beat->is_under_way && !beat->suspected) ended.push_back(task);
      beat->once = true;
    }
    for (int task : ended) RemoveBeat(task);
  }
  for (const auto& [task, beat] : added) Send(task, beat);
}

TaskHealth::BeatPtr TaskHealth::AddBeat(int task, bool once) {
  const auto beat = std::make_shared<Beat>();
  beat->once = once;
  beats_[task] = beat;
  return beat;
}

TaskHealth::BeatPtr TaskHealth::RemoveBeat(int task) {
  const auto found = beats_.find(task);
  if (found == beats_.end()) return nullptr;
  BeatPtr beat = std::move(found->second);
  beats_.erase(found);
  options_.environment.clock->Cancel(beat->alarm);
  return beat;
}

bool TaskHealth::IsPresent(int task, const BeatPtr& beat) const {
  const auto found = beats_.find(task);
  return found != beats_.end() && found->second == beat;
}

void TaskHealth::Suspect(int task) {
  if (task == options_.cluster.this_task) return;
  BeatPtr beat;
  {
    MutexLock lock(&mu_);
    if (tasks_[task].state == State::kLost) return;
    const auto found = beats_.find(task);
    if (found != beats_.end()) {
      found->second->suspected = true;
      return;
    }
    beat = AddBeat(task, /*once=*/true);
  }
  Send(task, beat);
}

// --- Heartbeats --------------------------------------------------------------

void TaskHealth::Send(int task, const BeatPtr& beat) {
  proto::ControlRequest request;
  ControlCallOptions options{.cancellation = beat->cancellation,
                             .to_any_process = true};
  {
    MutexLock lock(&mu_);
    if (!IsPresent(task, beat)) return;
    options.wait_until_reachable =
        tasks_[task].state == State::kUp && !tasks_[task].has_answered;
    beat->is_under_way = true;
    beat->suspected = false;
    beat->sent_at = options_.environment.clock->Now();
    ArmSilence(task, beat);
    const absl::Duration hold =
        beat->once ? absl::ZeroDuration() : options_.profile.hold;
    request.mutable_heartbeat()->set_hold_ms(
        static_cast<int>(absl::ToInt64Milliseconds(hold)));
  }
  options_.channel->Call(
      task, std::move(request), std::move(options),
      IfAlive(weak_from_this(), &TaskHealth::OnReply, task, beat));
}

void TaskHealth::ArmSilence(int task, const BeatPtr& beat) {
  Clock* const clock = options_.environment.clock;
  beat->silent_at = clock->Now() + options_.profile.silence_limit;
  beat->alarm = clock->CallAt(
      beat->silent_at,
      IfAlive(weak_from_this(), &TaskHealth::OnSilence, task, beat));
}

void TaskHealth::OnReply(int task, const BeatPtr& beat,
                         const ControlAnswer& reply) {
  bool has_answered = false;
  {
    MutexLock lock(&mu_);
    if (!IsPresent(task, beat)) return;
    beat->is_under_way = false;
    options_.environment.clock->Cancel(beat->alarm);
    const Task& known = tasks_[task];
    has_answered = known.state == State::kUp && known.has_answered;
  }
  if (has_answered && IsOfAStranger(reply.status())) {
    return Lose(task, beat, reply.status().message());
  }
  if (absl::IsFailedPrecondition(reply.status())) {
    return OnRefused(task, beat, reply.status());
  }
  absl::Status status = reply.status();
  if (status.ok()) {
    status = OnAnswered({task, reply->heartbeat().incarnation()});
  }
  if (absl::IsUnavailable(status) || absl::IsFailedPrecondition(status)) {
    return Lose(task, beat, status.message());
  }
  BeatAgain(task, beat);
}

// Reports the refusal, and checks the other tasks: they may say the same or
// not.
void TaskHealth::OnRefused(int task, const BeatPtr& beat,
                           const absl::Status& why) {
  options_.refused(task, why);
  Lose(task, beat, why.message());
  for (int other = 0; other < options_.cluster.num_tasks(); ++other) {
    if (state(other) == State::kUp) Suspect(other);
  }
}

// Sends the next heartbeat: at once if the other side has delayed its answer,
// as it should.
void TaskHealth::BeatAgain(int task, const BeatPtr& beat) {
  Clock* const clock = options_.environment.clock;
  bool is_over = false;
  {
    MutexLock lock(&mu_);
    if (!IsPresent(task, beat)) return;
    is_over = beat->once && !beat->suspected;
    const absl::Duration hold = options_.profile.hold;
    const absl::Time now = clock->Now();
    if (is_over) {
      RemoveBeat(task);
    } else if (now - beat->sent_at < hold / 2) {
      beat->alarm = clock->CallAt(
          now + hold, IfAlive(weak_from_this(), &TaskHealth::Send, task, beat));
      return;
    }
  }
  if (is_over) return Update();  // The task may be watched too.
  Send(task, beat);
}

void TaskHealth::OnSilence(int task, const BeatPtr& beat) {
  absl::Duration silence;
  {
    MutexLock lock(&mu_);
    const absl::Time now = options_.environment.clock->Now();
    // An answer may have come while the alarm rang.
    if (!IsPresent(task, beat) || !beat->is_under_way ||
        now < beat->silent_at) {
      return;
    }
    // This process may have stood still itself: the answer may have come
    // meanwhile.
    if (now - beat->silent_at > options_.profile.hold) {
      return ArmSilence(task, beat);
    }
    silence = now - beat->sent_at;
  }
  Lose(task, beat, absl::StrCat("silent for ", Seconds(silence)),
       /*is_silent=*/true);
}

// --- Lost and living processes ---------------------------------------------

absl::Status TaskHealth::OnHeard(const ControlCaller& process) {
  const int task = process.task;
  if (task < 0 || task >= options_.cluster.num_tasks()) {
    return absl::InvalidArgumentError(
        absl::StrCat("task ", task, " calls, but the tasks are 0 to ",
                     options_.cluster.num_tasks() - 1));
  }
  absl::Status replaced;
  ControlCaller gone{task};
  BeatPtr beat;  // Heartbeat to the process that is gone.
  {
    MutexLock lock(&mu_);
    Task& known = tasks_[task];
    if (known.state == State::kUp && known.incarnation == process.incarnation) {
      return absl::OkStatus();
    }
    for (const LostProcess& lost : known.lost) {
      if (lost.incarnation != process.incarnation) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          kMustStartAgain, " (incarnation ", process.incarnation,
          "): ", Seconds(options_.environment.clock->Now() - lost.since),
          " ago, as ", options_.cluster.Label(options_.cluster.this_task),
          " says, ", lost.reason.message()));
    }
    if (known.state == State::kUp) {
      replaced = MarkLost(
          task, absl::StrCat("it restarted (incarnation ", process.incarnation,
                             " in the place of ", known.incarnation, ")"));
      gone.incarnation = known.incarnation;
      beat = RemoveBeat(task);
    }
    known.state = State::kUp;
    lost_.erase(task);
    known.incarnation = process.incarnation;
    known.has_answered = false;
  }
  if (beat != nullptr) beat->cancellation->Cancel(replaced);
  if (!replaced.ok()) options_.lost(gone, replaced);
  options_.found(process);
  Update();
  return absl::OkStatus();
}

absl::Status TaskHealth::OnAnswered(const ControlCaller& process) {
  RETURN_IF_ERROR(OnHeard(process));
  MutexLock lock(&mu_);
  Task& known = tasks_[process.task];
  if (known.incarnation == process.incarnation) known.has_answered = true;
  return absl::OkStatus();
}

bool TaskHealth::OnTold(const ControlCaller& process) {
  {
    MutexLock lock(&mu_);
    Task& known = tasks_[process.task];
    if (known.state == State::kUp) {
      return known.incarnation == process.incarnation;
    }
    if (known.state == State::kLost) return false;
    known.state = State::kUp;
    known.incarnation = process.incarnation;
    known.has_answered = true;  // Another task.
  }
  options_.found(process);
  Update();
  return true;
}

bool TaskHealth::HasReplaced(int task) {
  MutexLock lock(&mu_);
  return !tasks_[task].lost.empty();
}

bool TaskHealth::IsUp(const ControlCaller& process) {
  MutexLock lock(&mu_);
  const Task& known = tasks_[process.task];
  return known.state == State::kUp && known.incarnation == process.incarnation;
}

// Marks the process lost, unless another process has replaced it since the
// heartbeat was sent.
void TaskHealth::Lose(int task, const BeatPtr& beat, absl::string_view why,
                      bool is_silent) {
  absl::Status reason;
  ControlCaller gone{task};
  {
    MutexLock lock(&mu_);
    if (!IsPresent(task, beat)) return;
    RemoveBeat(task);
    if (tasks_[task].state == State::kLost) return;
    gone.incarnation = tasks_[task].incarnation;
    reason = MarkLost(task, why);
  }
  beat->cancellation->Cancel(reason);
  if (is_silent && options_.silent != nullptr) options_.silent(task, reason);
  options_.lost(gone, reason);
}

absl::Status TaskHealth::MarkLost(int task, absl::string_view why) {
  Task& known = tasks_[task];
  const std::string label = options_.cluster.Label(task);
  if (absl::ConsumePrefix(&why, label)) {
    absl::ConsumePrefix(&why, ":");
    absl::ConsumePrefix(&why, " ");
  }
  absl::Status reason =
      absl::UnavailableError(absl::StrCat(label, " was lost: ", why));
  if (known.state == State::kUp) {
    known.lost.push_back(
        {known.incarnation, options_.environment.clock->Now(), reason});
    if (known.lost.size() > kMaxLostProcesses) known.lost.pop_front();
  }
  known.state = State::kLost;
  known.loss = reason;
  lost_.insert(task);
  return reason;
}

// --- Questions ---------------------------------------------------------------

absl::StatusOr<int> TaskHealth::FindTask(absl::string_view name) const {
  const int num_tasks = options_.cluster.num_tasks();
  int task = 0;
  if (absl::SimpleAtoi(name, &task) && task >= 0 && task < num_tasks) {
    return task;
  }
  for (task = 0; task < num_tasks; ++task) {
    if (options_.cluster.TaskName(task) == name) return task;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", name, "\" is no task of this cluster; its ", num_tasks,
                   " tasks are ", options_.cluster.TaskName(0), " to ",
                   options_.cluster.TaskName(num_tasks - 1)));
}

void TaskHealth::CheckHealth(absl::string_view task, absl::Duration limit,
                             StatusCallback done) {
  const auto found = FindTask(task);
  if (!found.ok()) return std::move(done)(found.status());
  if (*found == options_.cluster.this_task) {
    return std::move(done)(absl::OkStatus());
  }
  proto::ControlRequest request;
  request.mutable_heartbeat()->set_hold_ms(0);
  options_.channel->Call(
      *found, std::move(request),
      {.deadline = options_.environment.clock->Now() + limit,
       .to_any_process = true},
      [self = shared_from_this(), number = *found,
       done = std::move(done)](const ControlAnswer& reply) mutable {
        std::move(done)(self->Judge(number, reply));
      });
}

absl::Status TaskHealth::Judge(int task, const ControlAnswer& reply) {
  const std::string label = options_.cluster.Label(task);
  MutexLock lock(&mu_);
  const Task& known = tasks_[task];
  if (!reply.ok()) {
    if (known.state == State::kLost && !known.lost.empty()) {
      return known.lost.back().reason;
    }
    return reply.status();
  }
  const uint64_t answering = reply->heartbeat().incarnation();
  const auto lost = std::find_if(known.lost.begin(), known.lost.end(),
                                 [&](const LostProcess& process) {
                                   return process.incarnation == answering;
                                 });
  if (lost != known.lost.end()) return lost->reason;
  if (known.state == State::kUnknown || answering == known.incarnation) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(label, " restarted: incarnation ", answering,
                   " answers in the place of ", known.incarnation));
}

bool TaskHealth::HasOthersUp(int task) {
  MutexLock lock(&mu_);
  for (int other = 0; other < options_.cluster.num_tasks(); ++other) {
    if (other != task && tasks_[other].state == State::kUp) return true;
  }
  return false;
}

absl::Status TaskHealth::LossOf(const ControlCaller& process) {
  MutexLock lock(&mu_);
  const Task& known = tasks_[process.task];
  for (const LostProcess& lost : known.lost) {
    if (lost.incarnation == process.incarnation) return lost.reason;
  }
  if (known.state == State::kLost) return known.loss;
  const bool is_it = known.state == State::kUnknown ||
                     process.incarnation == 0 ||
                     process.incarnation == known.incarnation;
  if (is_it) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      options_.cluster.Label(process.task), " was lost: it restarted ",
      "(incarnation ", known.incarnation, " in the place of ",
      process.incarnation, ")"));
}

absl::Status TaskHealth::FirstLoss() {
  MutexLock lock(&mu_);
  return lost_.empty() ? absl::OkStatus() : tasks_[*lost_.begin()].loss;
}

TaskHealth::State TaskHealth::state(int task) {
  MutexLock lock(&mu_);
  return tasks_[task].state;
}

uint64_t TaskHealth::incarnation(int task) {
  MutexLock lock(&mu_);
  return tasks_[task].incarnation;
}

size_t TaskHealth::num_watched() {
  MutexLock lock(&mu_);
  return beats_.size();
}

}  // namespace tutti
