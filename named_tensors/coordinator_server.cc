#include "named_tensors/coordinator_server.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/callbacks.h"
#include "framework/base/status_macros.h"
#include "framework/control/wire_codec.h"
#include "named_tensors/coordinator_codec.h"
#include "tutti/named_tensors.h"

namespace tutti {
namespace {

// With this many runs, small ready collectives wait for others, to run
// together. Two keep one run under way while the next is prepared.
constexpr int64_t kMaxRunningUngathered = 2;

// Bound on the bytes of an answer, exceeded by at most one decision. A control
// message may have 4 MiB.
constexpr size_t kMaxAnswerBytes = size_t{1} << 20;

ControlAnswer DoneAnswer(const absl::Status& status) {
  if (!status.ok()) return status;
  proto::ControlReply reply;
  reply.mutable_done();
  return reply;
}

// Answers a task whose count differs because its process restarted: no decision
// is for it.
ControlAnswer EndAnswer(uint64_t after, const absl::Status& end) {
  proto::ControlReply reply;
  proto::DecisionsReply& reported = *reply.mutable_decisions();
  reported.set_first_number(after + 1);
  *reported.mutable_end() = EncodeError(end);
  reported.set_cancels_runs(true);
  return reply;
}

void Report(const CoordinatorSettings& settings,
            const std::vector<StalledTensor>& stalled) {
  if (settings.stalled != nullptr) {
    for (const StalledTensor& tensor : stalled) settings.stalled(tensor);
    return;
  }
  for (const std::string& line : LinesOf(stalled)) {
    std::fprintf(stderr, "tutti: %s\n", line.c_str());
  }
}

}  // namespace

std::shared_ptr<CoordinatorServer> CoordinatorServer::Create(Options options) {
  return std::shared_ptr<CoordinatorServer>(
      new CoordinatorServer(std::move(options)));
}

CoordinatorServer::CoordinatorServer(Options options)
    : options_(std::move(options)),
      members_(options_.tasks, options_.cluster.num_tasks()),
      negotiation_({.num_ranks = members_.size(),
                    .tasks = options_.tasks,
                    .fusion_bytes = options_.settings.fusion_bytes,
                    .max_exact_entries = options_.max_entries / 4}),
      ranks_(members_.size()) {}

CoordinatorServer::~CoordinatorServer() {
  End(absl::CancelledError("rank zero shuts down"), DecidedRuns::kCancel);
}

// --- Requests ----------------------------------------------------------------

void CoordinatorServer::Handle(const ControlCaller& caller,
                               const proto::ControlRequest& request,
                               std::shared_ptr<Cancellation> withdrawn,
                               ControlDone done) {
  const std::optional<int> rank = members_.RankOf(caller.task);
  if (!rank.has_value()) {
    return std::move(done)(absl::InvalidArgumentError(absl::StrCat(
        "task ", caller.task,
        " is none of the coordinator's: ", RanksText(members_.tasks()))));
  }
  switch (request.kind_case()) {
    case proto::ControlRequest::kSubmitTensors:
      return std::move(done)(
          DoneAnswer(Submit(caller, *rank, request.submit_tensors())));
    case proto::ControlRequest::kAwaitDecisions:
      return Await(*rank, request.await_decisions().after(), withdrawn.get(),
                   std::move(done));
    case proto::ControlRequest::kEndDecisions:
      return std::move(done)(
          DoneAnswer(EndFrom(caller.task, *rank, request.end_decisions())));
    default:
      return std::move(done)(
          absl::InvalidArgumentError("not a request for named tensors"));
  }
}

absl::Status CoordinatorServer::Submit(const ControlCaller& caller, int index,
                                       const proto::SubmitTensors& message) {
  absl::Status status;
  Answers answers;
  bool begins = false;
  {
    MutexLock lock(&mu_);
    // AwaitDecisions reports the end to the rank, in order.
    if (!end_.ok()) return absl::OkStatus();
    begins = !std::exchange(has_begun_, true);
    status = Add(caller, index, message);
    if (ranks_[index].last_message == message.number()) {
      ranks_[index].last_status = status;
    }
    Decide();
    ArmAlarm();
    answers = TakeAnswers();
  }
  for (auto& [done, answer] : answers) std::move(done)(std::move(answer));
  if (begins && options_.begun != nullptr) options_.begun();
  return status;
}

// Ignores requests that were added before: a rank sends them again if the
// answer was lost.
absl::Status CoordinatorServer::Add(const ControlCaller& caller, int index,
                                    const proto::SubmitTensors& message) {
  Rank& rank = ranks_[index];
  if (rank.process != 0 && rank.process != caller.incarnation) {
    return absl::FailedPreconditionError(absl::StrCat(
        options_.cluster.Label(caller.task), " as process ", caller.incarnation,
        " asks for named tensors, and has asked as process ", rank.process));
  }
  if (message.number() <= rank.last_message) return rank.last_status;
  if (message.number() != rank.last_message + 1 ||
      message.first_request() != rank.next_request) {
    return absl::InvalidArgumentError(absl::StrCat(
        "submit_tensors.number is ", message.number(), " and first_request ",
        message.first_request(), "; wanted ", rank.last_message + 1, " and ",
        rank.next_request));
  }
  if (rank.name_head.size() + message.name_head().size() >
          kMaxTensorNameBytes ||
      message.slots().size() > kMaxTensorSlots / 8) {
    return absl::InvalidArgumentError(absl::StrCat(
        "submit_tensors.name_head has ", message.name_head().size(),
        " bytes and slots ", message.slots().size(), "; at most ",
        kMaxTensorNameBytes, " and ", kMaxTensorSlots / 8));
  }
  rank.process = caller.incarnation;
  rank.last_message = message.number();
  rank.name_head += message.name_head();
  const absl::Time now = options_.clock->Now();
  for (const proto::TensorRequest& one : message.requests()) {
    ASSIGN_OR_RETURN(
        auto request,
        DecodeTensorRequest(std::exchange(rank.name_head, std::string()), one));
    RETURN_IF_ERROR(
        negotiation_.Add(index, rank.next_request++, std::move(request), now));
  }
  for (const uint32_t slot : DecodeSlots(message.slots())) {
    RETURN_IF_ERROR(
        negotiation_.AddKnown(index, rank.next_request++, slot, now));
  }
  return message.joins() ? negotiation_.Join(index) : absl::OkStatus();
}

// --- Decisions ---------------------------------------------------------------

void CoordinatorServer::Decide() {
  const int64_t fusion_bytes = options_.settings.fusion_bytes;
  const bool gathers = fusion_bytes > 0 &&
                       num_running_ >= kMaxRunningUngathered &&
                       negotiation_.ready_bytes() < fusion_bytes;
  const int64_t num_new = options_.max_unsettled - negotiation_.num_unsettled();
  if (gathers || num_new <= 0 || !negotiation_.has_ready()) return;
  SendDecisions(negotiation_.TakeDecisions(num_new));
}

void CoordinatorServer::SendDecisions(
    const std::vector<Negotiation::Decision>& decisions) {
  for (const Negotiation::Decision& decision : decisions) {
    const bool is_for_all = decision.status.ok();
    if (is_for_all && !decision.last_joined.has_value()) ++num_running_;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (decision.requests[rank].empty() && !is_for_all) continue;
      ranks_[rank].decisions.push_back(
          EncodeDecision(decision, static_cast<int>(rank)));
    }
  }
}

ControlAnswer CoordinatorServer::NextAnswer(const Rank& rank) {
  proto::ControlReply reply;
  proto::DecisionsReply& reported = *reply.mutable_decisions();
  reported.set_first_number(rank.first_decision);
  size_t num_bytes = 0;
  for (const proto::Decision& decision : rank.decisions) {
    *reported.add_decisions() = decision;
    num_bytes += decision.ByteSizeLong();
    if (num_bytes > kMaxAnswerBytes) return reply;
  }
  if (end_.ok()) return reply;
  *reported.mutable_end() = EncodeError(end_);
  reported.set_cancels_runs(runs_at_end_ == DecidedRuns::kCancel);
  return reply;
}

// Takes answers for the ranks that wait and have news. Rank zero's comes last:
// rank zero begins to run inside its answer.
CoordinatorServer::Answers CoordinatorServer::TakeAnswers() {
  Answers answers;
  for (auto it = ranks_.rbegin(); it != ranks_.rend(); ++it) {
    Rank& rank = *it;
    if (rank.waiting == nullptr) continue;
    if (rank.decisions.empty() && end_.ok()) continue;
    answers.emplace_back(std::exchange(rank.waiting, nullptr),
                         NextAnswer(rank));
  }
  return answers;
}

absl::Status CoordinatorServer::CheckAfter(int index, uint64_t after) {
  const Rank& rank = ranks_[index];
  const uint64_t last = rank.first_decision - 1 + rank.decisions.size();
  if (after >= rank.first_decision - 1 && after <= last) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("await_decisions.after is ", after, "; wanted ",
                   rank.first_decision - 1, " to ", last));
}

void CoordinatorServer::Await(int index, uint64_t after,
                              Cancellation* withdrawn, ControlDone done) {
  uint64_t id = 0;
  ControlAnswer refusal;
  ControlDone refused, replaced;
  Answers answers;
  {
    MutexLock lock(&mu_);
    const absl::Status status = CheckAfter(index, after);
    if (status.ok()) {
      Rank& rank = ranks_[index];
      for (; rank.first_decision <= after; ++rank.first_decision) {
        rank.decisions.pop_front();
      }
      replaced = std::exchange(rank.waiting, std::move(done));
      id = rank.waiting_id = ++last_waiting_;
      answers = TakeAnswers();
    } else {
      refused = std::move(done);
      refusal = end_.ok() ? status : EndAnswer(after, end_);
    }
  }
  if (refused != nullptr) return std::move(refused)(std::move(refusal));
  if (replaced != nullptr) {
    std::move(replaced)(absl::AbortedError(
        "the rank has sent another await_decisions in the place of this one"));
  }
  for (auto& [answered, answer] : answers) {
    std::move(answered)(std::move(answer));
  }
  if (withdrawn == nullptr) return;
  withdrawn->Watch(
      IfAlive(weak_from_this(), &CoordinatorServer::StopWaiting, index, id));
}

void CoordinatorServer::StopWaiting(int index, uint64_t id,
                                    const absl::Status& reason) {
  ControlDone done;
  {
    MutexLock lock(&mu_);
    Rank& rank = ranks_[index];
    if (rank.waiting_id == id) done = std::exchange(rank.waiting, nullptr);
  }
  if (done != nullptr) std::move(done)(reason);
}

void CoordinatorServer::OnRunEnded(InstanceKey instance, bool went_well) {
  Answers answers;
  {
    MutexLock lock(&mu_);
    --num_running_;
    if (end_.ok()) {
      negotiation_.OnRunEnded(instance, went_well);
      Decide();
    }
    answers = TakeAnswers();
  }
  for (auto& [done, answer] : answers) std::move(done)(std::move(answer));
}

bool CoordinatorServer::is_in_use() {
  MutexLock lock(&mu_);
  return has_begun_ && end_.ok();
}

bool CoordinatorServer::HasHeardOf(const ControlCaller& process) {
  const std::optional<int> rank = members_.RankOf(process.task);
  if (!rank.has_value()) return false;
  MutexLock lock(&mu_);
  return ranks_[*rank].process == process.incarnation;
}

std::vector<ControlCaller> CoordinatorServer::OtherRanks() {
  std::vector<ControlCaller> others;
  MutexLock lock(&mu_);
  for (int rank = 1; rank < members_.size(); ++rank) {
    others.push_back({members_.tasks()[rank], ranks_[rank].process});
  }
  return others;
}

// --- The end -----------------------------------------------------------------

absl::Status CoordinatorServer::EndFrom(int task, int index,
                                        const proto::EndDecisions& message) {
  RETURN_IF_ERROR(CheckError(message.reason()));
  const absl::Status reason = DecodeError(message.reason());
  const std::string whose = absl::StrCat(options_.cluster.Label(task), ": ");
  const bool says_whose = absl::StartsWith(reason.message(), whose);
  End(says_whose
          ? reason
          : absl::Status(reason.code(), absl::StrCat(whose, reason.message())),
      message.cancels_runs() ? DecidedRuns::kCancel : DecidedRuns::kFinish,
      index);
  return absl::OkStatus();
}

void CoordinatorServer::End(absl::Status reason, DecidedRuns runs,
                            std::optional<int> by) {
  Answers answers;
  bool gives_up = false;
  {
    MutexLock lock(&mu_);
    if (end_.ok()) {
      end_ = reason;
      runs_at_end_ = runs;
      negotiation_ = Negotiation({.num_ranks = members_.size()});
      DisarmAlarm();
      answers = TakeAnswers();
    } else if (by.has_value() && !ranks_[*by].decisions.empty() &&
               runs == DecidedRuns::kCancel) {
      gives_up = std::exchange(runs_at_end_, runs) == DecidedRuns::kFinish;
    }
  }
  if (gives_up && options_.give_up != nullptr) options_.give_up(reason);
  for (auto& [done, answer] : answers) std::move(done)(std::move(answer));
}

// --- Ranks that are missing --------------------------------------------------

// Keeps one alarm, and none while no name waits. The alarm may ring early, for
// a name that is complete or reported. It then arms another.
void CoordinatorServer::ArmAlarm() {
  const CoordinatorSettings& settings = options_.settings;
  const absl::Time report =
      std::max(negotiation_.OldestNotReported() + settings.stall_report_after,
               next_report_);
  const absl::Time next =
      std::min(report, negotiation_.Oldest() + settings.stall_deadline);
  if (next >= rings_at_ || !DisarmAlarm()) return;
  rings_at_ = next;
  alarm_ = options_.clock->CallAt(
      next, IfAlive(weak_from_this(), &CoordinatorServer::OnAlarm));
}

// Returns false if the alarm rings just now.
bool CoordinatorServer::DisarmAlarm() {
  const bool is_armed = rings_at_ != absl::InfiniteFuture();
  if (is_armed && !options_.clock->Cancel(alarm_)) return false;
  rings_at_ = absl::InfiniteFuture();
  return true;
}

void CoordinatorServer::OnAlarm() {
  const CoordinatorSettings& settings = options_.settings;
  std::vector<StalledTensor> stalled;
  Answers answers;
  {
    MutexLock lock(&mu_);
    rings_at_ = absl::InfiniteFuture();
    const absl::Time now = options_.clock->Now();
    if (now >= next_report_) {
      stalled = negotiation_.TakeStalled(now, settings.stall_report_after);
    }
    if (!stalled.empty()) next_report_ = now + settings.stall_report_after / 16;
    SendDecisions(negotiation_.TakeExpired(now, settings.stall_deadline));
    ArmAlarm();
    answers = TakeAnswers();
  }
  Report(settings, stalled);
  for (auto& [done, answer] : answers) std::move(done)(std::move(answer));
}

}  // namespace tutti
