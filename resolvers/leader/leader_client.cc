#include "resolvers/leader/leader_client.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/callbacks.h"
#include "framework/collective/request_fields.h"
#include "framework/control/wire_codec.h"
#include "resolvers/messages/control_codec.h"

namespace tutti {
namespace {

InstanceId IdOf(const CollectiveRequest& request) {
  return {request.group_key, request.instance_key};
}

absl::Status Prefixed(const std::string& prefix, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(prefix, status.message()));
}

}  // namespace

LeaderClient::LeaderClient(DistributedResolverOptions options, Parts parts,
                           Owner* owner,
                           const std::shared_ptr<const void>& keeps_owner)
    : options_(std::move(options)),
      parts_(std::move(parts)),
      owner_(*owner),
      this_task_(options_.cluster.this_task),
      task_name_(options_.cluster.TaskName(this_task_)),
      poll_(std::make_shared<LeaderPoll>(options_)),
      weak_self_(std::shared_ptr<LeaderClient>(keeps_owner, this)),
      settled_(task_name_),
      learner_(&options_, owner, &mu_, &settled_) {}

// --- Calls -------------------------------------------------------------------

void LeaderClient::Request(const DeviceAttributes& device,
                           std::shared_ptr<const CollectiveRequest> request,
                           std::optional<CallNumber> number,
                           std::shared_ptr<Cancellation> cancellation,
                           Done done) {
  const auto question = std::make_shared<LeaderRequest>(
      LeaderRequest{.id = IdOf(*request),
                    .number = number,
                    .device = device,
                    .device_name = device.name.ToString(),
                    .request = std::move(request),
                    .done = std::move(done)});
  std::optional<Answer> answer;
  {
    MutexLock lock(&mu_);
    answer = settled_.FindAnswer(*question->request, question->device_name,
                                 /*group_only=*/!number.has_value());
    const absl::Status room =
        answer.has_value() ? absl::OkStatus() : CheckRoom(*question);
    if (!room.ok()) {
      answer = room;
    } else if (!answer.has_value()) {
      questions_.Add(question);
    }
  }
  // Check after adding the request. A later GiveUp() finds the request or the
  // group.
  const absl::Status given_up =
      number.has_value() ? parts_.given_up->Find(KeyOf(question->id, *number))
                         : absl::OkStatus();
  if (answer.has_value()) {
    if (!given_up.ok()) answer = given_up;
    return std::move(question->done)(*std::move(answer));
  }
  if (!given_up.ok()) return Finish(question, given_up);
  if (cancellation != nullptr) {
    cancellation->Watch(IfAlive(
        weak_self_, [weak_question = std::weak_ptr<LeaderRequest>(question)](
                        LeaderClient& self, const absl::Status& reason) {
          const auto cancelled = weak_question.lock();
          if (cancelled != nullptr) self.Finish(cancelled, reason);
        }));
  }
  Request(question);
}

absl::Status LeaderClient::CheckRoom(const LeaderRequest& question) const {
  if (question.device.name.TaskName() != task_name_) {
    return absl::InvalidArgumentError(absl::StrCat(
        question.device_name, " is not a device of this task, ", task_name_));
  }
  if (!refused_.ok()) return refused_;
  const size_t num_entries = settled_.num_entries() + questions_.size();
  if (num_entries < options_.max_entries) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      InstanceLabel(*question.request), ": the groups that live have ",
      num_entries, " entries of instances in this task; wanted are fewer than ",
      options_.max_entries));
}

bool LeaderClient::IsPresent(const LeaderRequest& question, int attempt) {
  MutexLock lock(&mu_);
  return questions_.Contains(question) && question.attempt == attempt;
}

std::vector<LeaderRequestPtr> LeaderClient::QuestionsWhere(
    absl::FunctionRef<bool(const LeaderRequest&)> matches) {
  MutexLock lock(&mu_);
  return questions_.Where(matches);
}

// Ends a request. One with an `end_reason` ends with that reason, not with the
// error of another.
void LeaderClient::Finish(const LeaderRequestPtr& question, Answer answer) {
  Done done;
  bool was_polled = false;
  std::optional<absl::Status> end_reason;
  {
    MutexLock lock(&mu_);
    if (!questions_.Contains(*question)) return;
    done = std::move(question->done);
    was_polled = question->is_polled;
    end_reason = question->end_reason;
    questions_.Remove(*question);
    if (!answer.ok() && end_reason.has_value()) answer = *end_reason;
    if (!answer.ok()) {
      ending_.Begin(question->id, answer.status());
    }
  }
  if (answer.ok() && end_reason.has_value()) {
    owner_.EndEverywhere(*(*answer)->group, *end_reason);
  }
  StopSending(question, was_polled,
              answer.ok() ? absl::CancelledError("answered") : answer.status());
  std::move(done)(answer);
  if (answer.ok()) return;
  MutexLock lock(&mu_);
  ending_.End(question->id);
}

void LeaderClient::FinishWhere(
    absl::FunctionRef<bool(const LeaderRequest&)> matches,
    const absl::Status& reason) {
  for (const LeaderRequestPtr& question : QuestionsWhere(matches)) {
    Finish(question, reason);
  }
}

// Ends the question and all others of its device for the same instance, or for
// its group alone: the leader answers a member only once.
void LeaderClient::FinishAllOf(const LeaderRequest& question,
                               const SettledGroups::Member& settled) {
  std::vector<LeaderRequestPtr> answered;
  {
    MutexLock lock(&mu_);
    answered = questions_.OfDevice(question.id, question.device_name);
  }
  for (const LeaderRequestPtr& other : answered) {
    Finish(other, other->number.has_value() ? settled.AnswerTo(*other->request)
                                            : Answer(settled.params));
  }
}

// Stops the messages of a question that has been removed.
void LeaderClient::StopSending(const LeaderRequestPtr& question,
                               bool was_polled, const absl::Status& reason) {
  question->withdrawn->Cancel(reason);
  if (!was_polled) return;
  poll_->End(question->id);
  NotifyWaiting();
}

std::string LeaderClient::DescribeWaiting(const CollectiveRequest& request) {
  const InstanceId id = IdOf(request);
  {
    MutexLock lock(&mu_);
    const LeaderRequest* const question = questions_.FindAny(id);
    if (question == nullptr) return ending_.ErrorOf(id);
    if (question->leader < 0) return "";
    if (question->is_polled) return poll_->Describe(id);
  }
  return parts_.led->DescribeWaiting(request);
}

bool LeaderClient::IsAwaited(GroupKey key) {
  return !QuestionsWhere([key](const LeaderRequest& question) {
            return question.id.group_key == key;
          }).empty();
}

// --- Requests ----------------------------------------------------------------

// Sends the request. Reads and notes the leader under one lock: OnLeaderGone()
// looks for the requests of a leader only after marking it lost.
void LeaderClient::Request(const LeaderRequestPtr& question) {
  const uint64_t ended_generation =
      options_.directory->EndedGeneration(question->id.group_key);
  absl::StatusOr<int> leader;
  bool was_polled = false;
  LeaderAttempt attempt;
  {
    MutexLock lock(&mu_);
    if (!questions_.Contains(*question)) return;
    leader = options_.leadership->leader();
    if (question->end_reason.has_value()) leader = *question->end_reason;
    was_polled = question->is_polled;
    if (leader.ok()) {
      attempt = BeginAttempt(*question, *leader, ended_generation);
    }
  }
  if (!leader.ok()) return Finish(question, leader.status());
  if (was_polled) poll_->End(question->id);
  if (*leader == this_task_) return RequestHere(question, attempt);
  NotifyWaiting();
  SendRequest(question, attempt);
}

LeaderAttempt LeaderClient::BeginAttempt(LeaderRequest& question, int leader,
                                         uint64_t ended_generation) {
  const auto group = settled_.Find(question.id.group_key);
  const uint64_t generation = group == nullptr ? 0 : group->params->generation;
  if (group != nullptr && group->params->cancellation->cancelled()) {
    ended_generation = std::max(ended_generation, generation);
  }
  ++question.attempt;
  question.living_generation = generation <= ended_generation ? 0 : generation;
  if (std::exchange(question.leader, leader) != leader) {
    question.in_vain_since.reset();
  }
  question.is_polled = leader != this_task_;
  // Inside the lock: Finish() must find the poll begun.
  if (question.is_polled) poll_->Begin(question.id, leader);
  return {.number = question.attempt,
          .leader = leader,
          .ended_generation = ended_generation,
          .living_generation = question.living_generation,
          .wait_until_reachable = !reached_.contains(leader)};
}

void LeaderClient::RequestHere(const LeaderRequestPtr& question,
                               const LeaderAttempt& attempt) {
  parts_.led->Join({.device = question->device,
                    .request = question->request,
                    .cancellation = question->withdrawn,
                    .ended_generation = attempt.ended_generation,
                    .living_generation = attempt.living_generation,
                    .group_only = !question->number.has_value(),
                    .requests_once = true},
                   IfAlive(weak_self_, &LeaderClient::OnAnswer, question));
  std::optional<absl::Status> ended;  // May precede the request.
  {
    MutexLock lock(&mu_);
    ended = question->end_reason;
  }
  if (!ended.has_value()) return;
  parts_.led->EndAwaited(question->id.group_key, task_name_, *ended);
}

void LeaderClient::SendRequest(const LeaderRequestPtr& question,
                               const LeaderAttempt& attempt) {
  auto message =
      EncodeMemberCall({.device = question->device,
                        .request = question->request,
                        .ended_generation = attempt.ended_generation,
                        .living_generation = attempt.living_generation,
                        .number = question->number});
  if (!message.ok()) return Finish(question, message.status());
  proto::ControlRequest request;
  *request.mutable_complete_params() = *std::move(message);
  options_.channel->Call(attempt.leader, std::move(request),
                         {.cancellation = question->withdrawn,
                          .wait_until_reachable = attempt.wait_until_reachable},
                         IfAlive(weak_self_, &LeaderClient::OnReply, question,
                                 attempt.number, attempt.leader));
}

void LeaderClient::RequestAgainSoon(const LeaderRequestPtr& question,
                                    const absl::Status& if_too_late) {
  const absl::Time now = options_.environment.clock->Now();
  bool gives_up = false;
  int attempt = 0;
  {
    MutexLock lock(&mu_);
    attempt = question->attempt;
    if (!question->in_vain_since.has_value()) question->in_vain_since = now;
    gives_up = now - *question->in_vain_since > options_.takeover_limit;
  }
  if (gives_up) return Finish(question, if_too_late);
  options_.environment.clock->CallAt(
      now + DefaultTime("call again"),
      IfAlive(weak_self_, [question, attempt](LeaderClient& self) {
        if (self.IsPresent(*question, attempt)) self.Request(question);
      }));
}

// --- Answers -----------------------------------------------------------------

void LeaderClient::OnAnswer(const LeaderRequestPtr& question,
                            const LeaderAnswer& answer) {
  if (answer.failed_generation != 0) {
    return OnFailure(question, answer.failed_generation,
                     answer.params.status());
  }
  if (!answer.params.ok()) return Finish(question, answer.params);
  const absl::Status added =
      learner_.Add(*question, this_task_, *answer.params);
  if (!added.ok()) return Finish(question, added);
  if (!question->number.has_value()) return Finish(question, answer.params);
  FinishAllOf(*question, {question->request, *answer.params});
}

void LeaderClient::OnReply(const LeaderRequestPtr& question, int attempt,
                           int leader, const ControlAnswer& reply) {
  if (!IsPresent(*question, attempt)) return;
  if (absl::IsUnavailable(reply.status())) {
    if (options_.suspect != nullptr) options_.suspect(leader);
    return RequestAgainOrEnd(question, reply.status());
  }
  if (!reply.ok()) return Finish(question, reply.status());
  OnReached(leader);
  const std::string who =
      absl::StrCat("the answer of ", options_.cluster.Label(leader), ": ");
  const proto::CompleteParamsReply& message = reply->complete_params();
  switch (message.kind_case()) {
    case proto::CompleteParamsReply::kSettled: {
      const Answer answer =
          learner_.Decode(*question, leader, message.settled());
      if (!answer.ok()) return Finish(question, Prefixed(who, answer.status()));
      if (!question->number.has_value()) return Finish(question, answer);
      return FinishAllOf(*question, {question->request, *answer});
    }
    case proto::CompleteParamsReply::kFailure:
      return OnFailure(question, message.failure().generation(),
                       DecodeError(message.failure().reason()));
    case proto::CompleteParamsReply::kNotLeader:
      return OnNotLeader(question, leader, message.not_leader());
    case proto::CompleteParamsReply::KIND_NOT_SET:
      return Finish(question, absl::InvalidArgumentError(absl::StrCat(
                                  who, "it says nothing of the params")));
  }
}

void LeaderClient::OnNotLeader(const LeaderRequestPtr& question, int requested,
                               const proto::NotLeader& message) {
  const auto lost = DecodeTasks(options_.cluster, message.lost_tasks());
  if (!lost.ok()) return Finish(question, lost.status());
  owner_.OnMayNotLead(*lost, question.get());
  const auto leader = options_.leadership->leader();
  if (!leader.ok() || *leader != requested) return Request(question);
  RequestAgainSoon(question,
                   absl::UnavailableError(absl::StrCat(
                       options_.cluster.Label(*leader),
                       " does not lead, as far as it knows, though every task "
                       "before it has been lost, as far as this one knows")));
}

// Repeats a request only if its group is to be formed again. Members who formed
// a group for the first time may be known to the lost leader alone: no call may
// wait for them. Once that leader is known to be lost, the next leader forms
// the group again from the members that are left.
void LeaderClient::RequestAgainOrEnd(const LeaderRequestPtr& question,
                                     const absl::Status& reason) {
  bool is_formed_again = false;
  {
    MutexLock lock(&mu_);
    is_formed_again = settled_.IsFormedAgain(question->id.group_key);
  }
  if (!is_formed_again) return Finish(question, reason);
  RequestAgainSoon(question, reason);
}

void LeaderClient::OnFailure(const LeaderRequestPtr& question,
                             uint64_t generation, const absl::Status& reason) {
  absl::Status status = CheckGeneration("failure.generation", generation);
  if (!status.ok()) return Finish(question, status);
  if (generation == 0) return Finish(question, reason);
  const GroupKey key = question->id.group_key;
  bool lived_here = false;
  {
    MutexLock lock(&mu_);
    lived_here = generation == question->living_generation;
    if (!lived_here) settled_.SetFailed(key, generation);
  }
  if (lived_here) options_.directory->End(key, generation, reason);
  Finish(question, reason);
}

// --- Ends --------------------------------------------------------------------

void LeaderClient::EndExecution(const ExecKey& execution,
                                const absl::Status& reason) {
  FinishWhere(
      [&](const LeaderRequest& question) {
        return question.number.has_value() &&
               KeyOf(question.id, *question.number) == execution;
      },
      reason);
}

void LeaderClient::EndGeneration(GroupKey key, uint64_t generation,
                                 const absl::Status& reason) {
  SettledGroups::GroupPtr removed;  // Freed without the lock.
  {
    MutexLock lock(&mu_);
    removed = settled_.Remove(key, generation);
  }
  FinishWhere(
      [&](const LeaderRequest& question) {
        return question.id.group_key == key &&
               question.living_generation == generation;
      },
      reason);
}

// Marks the requests, and keeps them until they are answered. The group may be
// settled at this moment: then it ends with the answer.
void LeaderClient::EndAwaited(GroupKey key, const absl::Status& reason) {
  std::vector<LeaderRequestPtr> waiting;
  {
    MutexLock lock(&mu_);
    waiting = questions_.SetEndReason(key, reason);
  }
  if (waiting.empty()) return;
  const auto leader = options_.leadership->leader();
  if (!leader.ok()) {
    for (const LeaderRequestPtr& question : waiting) Finish(question, reason);
    return;
  }
  if (*leader == this_task_) {
    return parts_.led->EndAwaited(key, task_name_, reason);
  }
  const absl::Time give_up =
      options_.environment.clock->Now() + EndReporter::kLimit;
  ReportEnd(key, waiting, *leader, give_up);
}

// Reports the end to the leader, repeatedly: a call may reach the leader after
// the report of its end.
void LeaderClient::ReportEnd(GroupKey key,
                             const std::vector<LeaderRequestPtr>& questions,
                             int leader, absl::Time give_up) {
  std::vector<LeaderRequestPtr> waiting;
  absl::Status reason;  // Reason of the first question.
  {
    MutexLock lock(&mu_);
    waiting = questions_.SentTo(leader, questions);
    if (waiting.empty()) return;
    reason = *waiting.front()->end_reason;
  }
  parts_.reporter->ReportGroupEnd(
      leader, key, /*generation=*/0, reason,
      [self = weak_self_.lock(), key, waiting, leader, give_up,
       reason](const ControlAnswer& reported) {
        Clock* const clock = self->options_.environment.clock;
        const absl::Time now = clock->Now();
        if (reported.ok() && now < give_up) {
          clock->CallAt(now + DefaultTime("call again"),
                        IfAlive(self->weak_self_, &LeaderClient::ReportEnd, key,
                                waiting, leader, give_up));
          return;
        }
        for (const LeaderRequestPtr& question : waiting) {
          self->Finish(question, reason);
        }
      },
      // Repeated after the answer, the report would end the next generation.
      waiting.front()->withdrawn);
}

void LeaderClient::EndAll(const absl::Status& reason) {
  for (const LeaderRequestPtr& question :
       QuestionsWhere([](const LeaderRequest&) { return true; })) {
    if (question->number.has_value()) {
      parts_.given_up->Add({.execution = KeyOf(question->id, *question->number),
                            .reason = reason});
    }
    Finish(question, reason);
  }
}

bool LeaderClient::Refuse(const absl::Status& why) {
  MutexLock lock(&mu_);
  if (!refused_.ok()) return false;
  refused_ = why;
  return true;
}

void LeaderClient::OnLeaderGone(int leader, const absl::Status& reason,
                                const LeaderRequest* answered) {
  for (const LeaderRequestPtr& question :
       QuestionsWhere([&](const LeaderRequest& question) {
         return question.leader == leader && &question != answered;
       })) {
    RequestAgainOrEnd(question, reason);
  }
}

}  // namespace tutti
