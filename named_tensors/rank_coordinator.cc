#include "named_tensors/rank_coordinator.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/callbacks.h"
#include "framework/base/status_macros.h"
#include "framework/control/wire_codec.h"
#include "named_tensors/decision_run.h"
#include "named_tensors/tensor_preparation.h"

namespace tutti {
std::shared_ptr<RankCoordinator> RankCoordinator::Create(Options options) {
  return std::shared_ptr<RankCoordinator>(
      new RankCoordinator(std::move(options)));
}

RankCoordinator::RankCoordinator(Options options)
    : options_(std::move(options)),
      members_(options_.tasks, options_.cluster.num_tasks()),
      place_({.rank = members_.RankOf(task()).value(),
              .num_ranks = members_.size(),
              .task = task()}),
      in_order_(options_.device->has_host_memory()
                    ? nullptr
                    : std::make_shared<RunsInOrder>()),
      pending_(place_) {}

RankCoordinator::~RankCoordinator() {
  const absl::Status reason = absl::CancelledError(absl::StrCat(
      options_.cluster.Label(task()), ": the coordinator was destroyed"));
  EndAll(reason, /*also_unused=*/options_.key != 0);
  std::vector<StatusCallback> dones;
  {
    MutexLock lock(&mu_);
    dones.swap(shutdowns_);
  }
  for (StatusCallback& done : dones) std::move(done)(reason);
}

// Calls rank zero's server from the work queue if this rank is rank zero.
// Requests made meanwhile then share one message, as on other ranks, and chains
// of callbacks do not deepen the stack.
void RankCoordinator::Call(proto::ControlRequest request, ControlDone done) {
  if (options_.server == nullptr) {
    return options_.channel->Call(members_.deciding_task(), std::move(request),
                                  {.cancellation = calls_}, std::move(done));
  }
  options_.environment.queue->Schedule(
      [server = options_.server, caller = ControlCaller{task()},
       request = std::move(request), done = std::move(done)]() mutable {
        server->Handle(caller, request, /*withdrawn=*/nullptr, std::move(done));
      });
}

// --- Requests ----------------------------------------------------------------

void RankCoordinator::AllReduce(NamedTensor tensor, StatusCallback done) {
  Submit(CollectiveType::kAllReduce, std::move(tensor), std::move(done));
}

void RankCoordinator::AllGather(NamedTensor tensor, StatusCallback done) {
  Submit(CollectiveType::kAllGather, std::move(tensor), std::move(done));
}

void RankCoordinator::Broadcast(NamedTensor tensor, StatusCallback done) {
  Submit(CollectiveType::kBroadcast, std::move(tensor), std::move(done));
}

void RankCoordinator::ReduceScatter(NamedTensor tensor, StatusCallback done) {
  Submit(CollectiveType::kReduceScatter, std::move(tensor), std::move(done));
}

void RankCoordinator::AllToAll(NamedTensor tensor, StatusCallback done) {
  Submit(CollectiveType::kAllToAll, std::move(tensor), std::move(done));
}

void RankCoordinator::Submit(CollectiveType type, NamedTensor tensor,
                             StatusCallback done) {
  const auto pending = std::make_shared<PendingTensor>();
  pending->request = {.name = std::move(tensor.name),
                      .type = type,
                      .root = HasRoot(type) ? tensor.root : 0};
  pending->tensor = std::move(tensor);
  pending->done = std::move(done);
  absl::Status status = PrepareTensor(*pending, *options_.device, place_);
  if (status.ok()) status = Enter(pending);
  if (!status.ok()) return pending->End(std::move(status));
  SayWhetherWaits();
  Begin();  // Before sending: a rank that has sent reports its end.
  SendNext();
}

void RankCoordinator::Join(JoinCallback done) {
  absl::Status status;
  {
    MutexLock lock(&mu_);
    status = CheckIsOpen();
    if (status.ok() && join_ != nullptr) {
      status = absl::FailedPreconditionError(absl::StrCat(
          "rank ", task(), " has joined, and that has not ended yet"));
    }
    if (status.ok()) status = pending_.Join();
    if (status.ok()) join_ = std::move(done);
  }
  if (!status.ok()) return std::move(done)(std::move(status));
  SayWhetherWaits();
  Begin();
  SendNext();
}

absl::Status RankCoordinator::Enter(const PendingTensorPtr& pending) {
  MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckIsOpen());
  return pending_.Add(pending);
}

absl::Status RankCoordinator::CheckIsOpen() {
  if (!end_.ok()) return end_;
  if (!is_shutting_down_) return absl::OkStatus();
  return absl::CancelledError(
      absl::StrCat(options_.cluster.Label(task()),
                   " has shut the coordinator of named tensors down"));
}

// Reports changes only: their sum is right in any order of arrival.
void RankCoordinator::SayWhetherWaits() {
  int change = 0;
  {
    MutexLock lock(&mu_);
    const bool waits = pending_.has_undecided();
    if (waits == waits_) return;
    waits_ = waits;
    change = waits ? 1 : -1;
  }
  options_.channel->AddWaiting(change);
}

void RankCoordinator::Begin() {
  {
    MutexLock lock(&mu_);
    if (has_begun_) return;
  }
  const uint64_t requested_process = PresentProcess(members_.deciding_task());
  {
    MutexLock lock(&mu_);
    if (std::exchange(has_begun_, true)) return;
    requested_process_ = requested_process;
  }
  auto executor = options_.executor();
  {
    MutexLock lock(&mu_);
    executor_ = std::move(executor);
  }
  AwaitDecisions();
  if (options_.begun != nullptr) options_.begun();
}

template <typename Message>
void RankCoordinator::SetCoordinator(bool gives_ranks, Message& message) const {
  message.set_coordinator(options_.key);
  if (options_.key == 0 || !gives_ranks) return;
  const std::vector<int>& tasks = members_.tasks();
  message.mutable_ranks()->Add(tasks.begin(), tasks.end());
}

void RankCoordinator::SendNext() {
  proto::ControlRequest request;
  {
    MutexLock lock(&mu_);
    if (is_sending_ || !pending_.has_message() || !end_.ok()) return;
    is_sending_ = true;
    *request.mutable_submit_tensors() = pending_.TakeMessage();
    SetCoordinator(request.submit_tensors().number() == 1,
                   *request.mutable_submit_tensors());
  }
  Call(std::move(request),
       IfAlive(weak_from_this(),
               [](RankCoordinator& self, const ControlAnswer& answer) {
                 if (!answer.ok()) return self.Fail(answer.status());
                 {
                   MutexLock lock(&self.mu_);
                   self.is_sending_ = false;
                 }
                 self.SendNext();
               }));
}

// --- Decisions ---------------------------------------------------------------

void RankCoordinator::AwaitDecisions() {
  proto::ControlRequest request;
  {
    MutexLock lock(&mu_);
    request.mutable_await_decisions()->set_after(last_decision_);
  }
  proto::AwaitDecisions& message = *request.mutable_await_decisions();
  SetCoordinator(message.after() == 0, message);
  Call(std::move(request),
       IfAlive(weak_from_this(), &RankCoordinator::OnDecisions));
}

void RankCoordinator::OnDecisions(const ControlAnswer& answer) {
  if (!answer.ok()) return Fail(answer.status());
  const proto::DecisionsReply& reported = answer->decisions();
  absl::Status status = CheckNumber(reported.first_number());
  for (int i = 0; status.ok() && i < reported.decisions_size(); ++i) {
    status = Follow(reported.decisions(i));
  }
  if (!status.ok()) {
    return Fail(absl::InternalError(
        absl::StrCat("rank zero said what cannot be: ", status.message())));
  }
  if (!reported.has_end()) return AwaitDecisions();
  EndHere(DecodeError(reported.end()), reported.cancels_runs()
                                           ? DecidedRuns::kCancel
                                           : DecidedRuns::kFinish);
}

absl::Status RankCoordinator::CheckNumber(uint64_t first_number) {
  MutexLock lock(&mu_);
  if (first_number == last_decision_ + 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("decisions.first_number is ",
                                                 first_number, "; wanted ",
                                                 last_decision_ + 1));
}

absl::Status RankCoordinator::Follow(const proto::Decision& decision) {
  ASSIGN_OR_RETURN(auto tensors, TakeDecided(decision));
  SayWhetherWaits();
  if (decision.last_joined() > 0) {
    OnAllJoined(members_.tasks()[decision.last_joined() - 1]);
    OnReported();
    return absl::OkStatus();
  }
  if (!decision.has_error()) {
    Run(decision, std::move(tensors));
    return absl::OkStatus();
  }
  const absl::Status error = DecodeError(decision.error());
  Leave(tensors);
  for (const PendingTensorPtr& pending : tensors) {
    pending->End(error);
  }
  OnReported();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PendingTensorPtr>> RankCoordinator::TakeDecided(
    const proto::Decision& decision) {
  MutexLock lock(&mu_);
  if (!end_.ok()) return end_;
  auto tensors = pending_.TakeDecided(decision);
  if (!tensors.ok()) return tensors;
  ++last_decision_;
  ++num_unreported_;
  return tensors;
}

void RankCoordinator::Run(const proto::Decision& decision,
                          std::vector<PendingTensorPtr> tensors) {
  DecisionGroup group{.device = options_.device,
                      .group_key = options_.group_key,
                      .rank = place_.rank,
                      .num_ranks = place_.num_ranks,
                      .task = place_.task,
                      .cancellation = runs_};
  {
    MutexLock lock(&mu_);
    group.executor = executor_;
  }
  auto ended = [weak_self = weak_from_this(), tensors,
                instance = decision.instance()](const absl::Status& status) {
    const auto self = weak_self.lock();
    if (self != nullptr) self->Leave(tensors);
    for (const PendingTensorPtr& pending : tensors) {
      pending->End(status);
    }
    if (self != nullptr) self->OnRunEnded(instance, status.ok());
  };
  if (in_order_ == nullptr) {
    return RunDecision(std::move(group), decision, std::move(tensors),
                       std::move(ended));
  }
  in_order_->Add([group = std::move(group), decision,
                  tensors = std::move(tensors),
                  ended = std::move(ended)](auto next) mutable {
    RunDecision(std::move(group), decision, std::move(tensors),
                [ended = std::move(ended),
                 next = std::move(next)](const absl::Status& status) mutable {
                  ended(status);
                  std::move(next)();
                });
  });
}

// Frees the names before `done` runs, which may request them again.
void RankCoordinator::Leave(const std::vector<PendingTensorPtr>& tensors) {
  MutexLock lock(&mu_);
  pending_.Leave(tensors);
}

void RankCoordinator::OnRunEnded(InstanceKey instance, bool went_well) {
  if (options_.server != nullptr) {
    options_.server->OnRunEnded(instance, went_well);
  }
  OnReported();
}

void RankCoordinator::OnAllJoined(absl::StatusOr<int> last) {
  JoinCallback done;
  {
    MutexLock lock(&mu_);
    done = std::exchange(join_, nullptr);
  }
  if (done != nullptr) std::move(done)(std::move(last));
}

void RankCoordinator::OnReported() {
  {
    MutexLock lock(&mu_);
    --num_unreported_;
  }
  AnswerShutdowns();
}

// --- The end -----------------------------------------------------------------

void RankCoordinator::Shutdown(StatusCallback done) {
  bool reports = false;
  {
    MutexLock lock(&mu_);
    shutdowns_.push_back(std::move(done));
    reports = !std::exchange(is_shutting_down_, true) && end_.ok();
  }
  if (!reports) return AnswerShutdowns();
  Begin();
  ReportEnd(
      absl::CancelledError("the coordinator of named tensors was shut down"),
      DecidedRuns::kFinish,
      [weak_self = weak_from_this()](const ControlAnswer& answer) {
        const auto self = weak_self.lock();
        if (self == nullptr || answer.ok()) return;
        {
          MutexLock lock(&self->mu_);
          if (self->end_.ok()) self->shutdown_status_ = answer.status();
        }
        // Decisions that have not arrived here cannot run.
        self->ReportEnd(answer.status(), DecidedRuns::kCancel,
                        [](const ControlAnswer&) {});
        self->EndHere(answer.status(), DecidedRuns::kFinish);
      });
}

void RankCoordinator::AnswerShutdowns() {
  std::vector<StatusCallback> dones;
  absl::Status status;
  {
    MutexLock lock(&mu_);
    if (end_.ok() || num_unreported_ > 0) return;
    dones.swap(shutdowns_);
    status = shutdown_status_;
  }
  for (StatusCallback& done : dones) std::move(done)(status);
}

// Sends without `calls_`: the end cancels the calls of `calls_`.
void RankCoordinator::ReportEnd(const absl::Status& reason, DecidedRuns runs,
                                ControlDone done) {
  proto::ControlRequest request;
  *request.mutable_end_decisions()->mutable_reason() = EncodeError(reason);
  request.mutable_end_decisions()->set_cancels_runs(runs ==
                                                    DecidedRuns::kCancel);
  SetCoordinator(/*gives_ranks=*/true, *request.mutable_end_decisions());
  if (options_.server != nullptr)
    return Call(std::move(request), std::move(done));
  options_.channel->Call(
      members_.deciding_task(), std::move(request),
      {.deadline = options_.environment.clock->Now() + DefaultTime("end")},
      std::move(done));
}

// Ends everything: this rank cannot go on, and the other ranks would wait for
// it.
void RankCoordinator::Fail(absl::Status status) {
  {
    MutexLock lock(&mu_);
    if (!end_.ok()) return;
  }
  ReportEnd(status, DecidedRuns::kCancel, [](const ControlAnswer&) {});
  EndHere(std::move(status), DecidedRuns::kCancel);
}

void RankCoordinator::EndHere(absl::Status status, DecidedRuns runs) {
  std::vector<PendingTensorPtr> undecided;
  {
    MutexLock lock(&mu_);
    if (!end_.ok()) return;
    end_ = status;
    undecided = pending_.TakeUndecided();
    ++num_unreported_;
  }
  SayWhetherWaits();
  calls_->Cancel(status);
  if (runs == DecidedRuns::kCancel) runs_->Cancel(status);
  for (const PendingTensorPtr& pending : undecided) {
    pending->End(status);
  }
  OnAllJoined(status);
  OnReported();
}

void RankCoordinator::End(absl::Status reason) {
  EndAll(std::move(reason), /*also_unused=*/true);
}

void RankCoordinator::Retire(absl::Status reason) {
  EndAll(std::move(reason), /*also_unused=*/false);
}

void RankCoordinator::EndAll(absl::Status reason, bool also_unused) {
  bool reports = false;
  {
    MutexLock lock(&mu_);
    reports = end_.ok() && (has_begun_ || also_unused);
  }
  if (options_.server != nullptr) {
    options_.server->End(
        reason, DecidedRuns::kCancel,
        reports ? std::make_optional(place_.rank) : std::nullopt);
  } else if (reports) {
    ReportEnd(reason, DecidedRuns::kCancel, [](const ControlAnswer&) {});
  }
  EndHere(reason, DecidedRuns::kCancel);
  runs_->Cancel(std::move(reason));  // Also after an end that let them finish.
}

// Ends the step on the other tasks, in whatever state they are.
void RankCoordinator::GiveUpRuns(const absl::Status& reason) {
  std::shared_ptr<CollectiveExecutor> executor;
  {
    MutexLock lock(&mu_);
    executor = executor_;
  }
  if (executor == nullptr) return;  // Nothing was decided.
  const absl::Time deadline =
      options_.environment.clock->Now() + DefaultTime("end");
  for (const int member : members_.tasks()) {
    if (member == task()) continue;
    proto::ControlRequest request;
    request.mutable_cleanup_step()->set_step(executor->step_id());
    options_.channel->Call(member, std::move(request), {.deadline = deadline},
                           [](const ControlAnswer&) {});
  }
  executor->StartAbort(reason);
}

uint64_t RankCoordinator::PresentProcess(int task) const {
  return options_.present_process == nullptr ? 0
                                             : options_.present_process(task);
}

// True if a live process of the task replaced `process` before the two
// processes exchanged any request.
bool RankCoordinator::IsReplaced(const ControlCaller& process) {
  const auto [task, incarnation] = process;
  const uint64_t present = PresentProcess(task);
  if (incarnation == 0 || present == 0 || present == incarnation) return false;
  if (options_.server != nullptr) return !options_.server->HasHeardOf(process);
  MutexLock lock(&mu_);
  return requested_process_ != 0 && requested_process_ != incarnation;
}

void RankCoordinator::OnTaskLost(const ControlCaller& process,
                                 const absl::Status& reason) {
  if (!members_.RankOf(process.task).has_value()) return;
  if (IsReplaced(process)) return;
  if (options_.server != nullptr) {
    if (options_.server->is_in_use()) {
      options_.server->End(reason, DecidedRuns::kCancel);
    }
    return;
  }
  {
    MutexLock lock(&mu_);
    if (process.task != members_.deciding_task() || !has_begun_) return;
  }
  EndHere(reason, DecidedRuns::kCancel);
}

std::vector<ControlCaller> RankCoordinator::WaitsFor() {
  if (options_.server != nullptr) {
    if (!options_.server->is_in_use()) return {};
    return options_.server->OtherRanks();
  }
  MutexLock lock(&mu_);
  if (!has_begun_ || !end_.ok()) return {};
  return {ControlCaller{members_.deciding_task()}};
}

}  // namespace tutti
