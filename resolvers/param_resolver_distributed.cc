#include "resolvers/param_resolver_distributed.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/request_fields.h"
#include "framework/wire_codec.h"
#include "resolvers/control_codec.h"
#include "resolvers/group_codec.h"
#include "resolvers/instance_check.h"
#include "resolvers/task_members.h"

namespace tutti {
namespace {

constexpr absl::Duration kAskAgain = absl::Milliseconds(100);

InstanceId IdOf(const CollectiveRequest& request) {
  return {request.group_key, request.instance_key};
}

absl::Status Prefixed(const std::string& prefix, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(prefix, status.message()));
}

}  // namespace

std::shared_ptr<ParamResolverDistributed> ParamResolverDistributed::Create(
    Options options) {
  const std::shared_ptr<ParamResolverDistributed> resolver(
      new ParamResolverDistributed(std::move(options)));
  resolver->Initialize();
  return resolver;
}

ParamResolverDistributed::ParamResolverDistributed(Options options)
    : options_(std::move(options)),
      this_task_(options_.cluster.this_task),
      task_name_(options_.cluster.TaskName(this_task_)),
      teller_(std::make_shared<EndTeller>(
          EndTeller::Options{.cluster = options_.cluster,
                             .channel = options_.channel,
                             .clock = options_.environment.clock,
                             .leadership = options_.leadership})),
      settled_(task_name_) {}

void ParamResolverDistributed::Initialize() {
  led_ = ParamResolverLocal::Create(
      {.registry = options_.registry,
       .rules = options_.rules,
       .delegate = options_.delegate,
       .ring_order = options_.ring_order,
       .max_entries = options_.max_entries,
       .task_name = task_name_,
       .max_unsettled = options_.max_unsettled,
       .formed_group_failed =
           [weak_self = weak_from_this()](const CollGroupParams& group,
                                          const absl::Status& reason) {
             const auto self = weak_self.lock();
             if (self != nullptr) self->EndEverywhere(group, reason);
           },
       .new_groups_changed =
           [weak_self = weak_from_this()] {
             const auto self = weak_self.lock();
             if (self != nullptr) self->NotifyWaiting();
           }});
  leader_service_ = std::make_shared<LeaderService>(
      LeaderService::Options{.cluster = options_.cluster,
                             .led = led_,
                             .leadership = options_.leadership,
                             .given_up = given_up_,
                             .suspect = options_.suspect});
  poll_ = std::make_shared<LeaderPoll>(options_.cluster, options_.channel,
                                       options_.environment.clock);
}

ParamResolverDistributed::~ParamResolverDistributed() {
  const absl::Status reason = absl::CancelledError("the resolver shut down");
  for (const QuestionPtr& question :
       QuestionsWhere([](const Question&) { return true; })) {
    EndWithAll(question, reason);
  }
  led_->EndAll(reason);
}

// --- Members' calls ----------------------------------------------------------

void ParamResolverDistributed::CompleteParamsAsync(
    const DeviceAttributes& device,
    std::shared_ptr<const CollectiveRequest> request, CallNumber number,
    std::shared_ptr<Cancellation> cancellation, Done done) {
  const auto question =
      std::make_shared<Question>(Question{.id = IdOf(*request),
                                          .number = number,
                                          .device = device,
                                          .device_name = device.name.ToString(),
                                          .request = std::move(request),
                                          .done = std::move(done)});
  std::optional<Answer> answer;
  {
    MutexLock lock(&mu_);
    const SettledGroups::Member* const settled =
        settled_.Find(question->id, question->device_name);
    if (settled != nullptr) {
      answer = AnswerOf(*settled, *question->request);
    } else if (absl::Status room = CheckRoom(*question); !room.ok()) {
      answer = std::move(room);
    } else {
      Add(question);
    }
  }
  // Who gives it up from now on finds it among the questions, or the group.
  const absl::Status given_up = given_up_->Find(KeyOf(question->id, number));
  if (answer.has_value()) {
    if (!given_up.ok()) answer = given_up;
    return std::move(question->done)(*std::move(answer));
  }
  if (!given_up.ok()) return Finish(question, given_up);
  if (cancellation != nullptr) {
    cancellation->Watch([weak_self = weak_from_this(),
                         weak_question = std::weak_ptr<Question>(question)](
                            const absl::Status& reason) {
      const auto self = weak_self.lock();
      const auto cancelled = weak_question.lock();
      if (self == nullptr || cancelled == nullptr) return;
      self->Finish(cancelled, reason);
    });
  }
  Ask(question);
}

absl::Status ParamResolverDistributed::CheckRoom(
    const Question& question) const {
  if (question.device.name.TaskName() != task_name_) {
    return absl::InvalidArgumentError(absl::StrCat(
        question.device_name, " is not a device of this task, ", task_name_));
  }
  if (!refused_.ok()) return refused_;
  const size_t num_entries = settled_.num_entries() + num_questions_;
  if (num_entries < options_.max_entries) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      InstanceLabel(*question.request), ": the groups that live have ",
      num_entries, " entries of instances in this task; wanted are fewer than ",
      options_.max_entries));
}

void ParamResolverDistributed::Add(const QuestionPtr& question) {
  question->place = ++last_place_;
  questions_[question->id].emplace(
      std::pair(question->device_name, question->place), question);
  ++num_questions_;
}

ParamResolverDistributed::Answer ParamResolverDistributed::AnswerOf(
    const SettledGroups::Member& settled, const CollectiveRequest& request) {
  absl::Status status = CheckSameRequest(*settled.request, request);
  if (!status.ok()) return status;
  return settled.params;
}

bool ParamResolverDistributed::IsPresent(const Question& question) const {
  const auto of_instance = questions_.find(question.id);
  return of_instance != questions_.end() &&
         of_instance->second.contains({question.device_name, question.place});
}

bool ParamResolverDistributed::IsPresent(const Question& question,
                                         int attempt) {
  MutexLock lock(&mu_);
  return IsPresent(question) && question.attempt == attempt;
}

void ParamResolverDistributed::Remove(const Question& question) {
  const auto of_instance = questions_.find(question.id);
  of_instance->second.erase({question.device_name, question.place});
  if (of_instance->second.empty()) questions_.erase(of_instance);
  --num_questions_;
}

void ParamResolverDistributed::Finish(const QuestionPtr& question,
                                      const Answer& answer) {
  Done done;
  bool was_polled = false;
  std::optional<absl::Status> end_reason;
  {
    MutexLock lock(&mu_);
    if (!IsPresent(*question)) return;
    done = std::move(question->done);
    was_polled = question->is_polled;
    end_reason = question->end_reason;
    Remove(*question);
  }
  if (answer.ok() && end_reason.has_value()) {
    EndEverywhere(*(*answer)->group, *end_reason);
  }
  StopAsking(question, was_polled,
             answer.ok() ? absl::CancelledError("answered") : answer.status());
  std::move(done)(answer);
}

// The question, and others of its device that wait for the same: who has been
// told once is not told again.
void ParamResolverDistributed::FinishAllOf(
    const Question& question, const SettledGroups::Member& settled) {
  std::vector<QuestionPtr> answered;
  {
    MutexLock lock(&mu_);
    const auto of_instance = questions_.find(question.id);
    if (of_instance == questions_.end()) return;
    const Questions& questions = of_instance->second;
    for (auto next = questions.lower_bound({question.device_name, 0});
         next != questions.end() && next->first.first == question.device_name;
         ++next) {
      answered.push_back(next->second);
    }
  }
  for (const QuestionPtr& other : answered) {
    Finish(other, AnswerOf(settled, *other->request));
  }
}

// It has been removed.
void ParamResolverDistributed::StopAsking(const QuestionPtr& question,
                                          bool was_polled,
                                          const absl::Status& reason) {
  question->withdrawn->Cancel(reason);
  if (!was_polled) return;
  poll_->End(question->id);
  NotifyWaiting();
}

std::string ParamResolverDistributed::DescribeWaiting(
    const CollectiveRequest& request) {
  const InstanceId id = IdOf(request);
  {
    MutexLock lock(&mu_);
    const auto found = questions_.find(id);
    if (found == questions_.end()) return "";
    const Question& question = *found->second.begin()->second;
    if (question.leader < 0) return "";
    if (question.is_polled) return poll_->Describe(id);
  }
  return led_->DescribeWaiting(request);
}

std::vector<int> ParamResolverDistributed::WaitsFor() {
  std::set<int> tasks;
  MutexLock lock(&mu_);
  for (const auto& [id, of_instance] : questions_) {
    for (const auto& [name, question] : of_instance) {
      if (question->is_polled) tasks.insert(question->leader);
    }
  }
  return std::vector<int>(tasks.begin(), tasks.end());
}

// --- The leader --------------------------------------------------------------

// Whoever finds a leader lost looks for what asks it after that: so it is read
// and noted within one lock.
void ParamResolverDistributed::Ask(const QuestionPtr& question) {
  const uint64_t ended_generation =
      options_.directory->EndedGeneration(question->id.group_key);
  absl::StatusOr<int> leader;
  bool was_polled = false;
  bool is_reached = false;
  {
    MutexLock lock(&mu_);
    if (!IsPresent(*question)) return;
    leader = options_.leadership->leader();
    if (question->end_reason.has_value()) leader = *question->end_reason;
    was_polled = question->is_polled;
    if (leader.ok()) {
      BeginAttempt(*question, *leader, ended_generation);
      is_reached = reached_.contains(*leader);
    }
  }
  if (!leader.ok()) return Finish(question, leader.status());
  if (was_polled) poll_->End(question->id);
  if (*leader == this_task_) return AskHere(question, ended_generation);
  NotifyWaiting();
  AskThere(question, ended_generation, !is_reached);
}

void ParamResolverDistributed::BeginAttempt(Question& question, int leader,
                                            uint64_t ended_generation) {
  const auto group = settled_.Find(question.id.group_key);
  ++question.attempt;
  question.living_generation =
      group == nullptr || group->params->generation <= ended_generation
          ? 0
          : group->params->generation;
  if (std::exchange(question.leader, leader) != leader) {
    question.in_vain_since.reset();
  }
  question.is_polled = leader != this_task_;
  // Whoever removes the question finds it begun.
  if (question.is_polled) poll_->Begin(question.id, leader);
}

void ParamResolverDistributed::AskHere(const QuestionPtr& question,
                                       uint64_t ended_generation) {
  led_->Join({.device = question->device,
              .request = question->request,
              .cancellation = question->withdrawn,
              .ended_generation = ended_generation,
              .living_generation = question->living_generation,
              .asks_once = true},
             [weak_self = weak_from_this(), question](LeaderAnswer answer) {
               const auto self = weak_self.lock();
               if (self != nullptr) self->OnAnswer(question, answer);
             });
  std::optional<absl::Status> ended;  // Perhaps before it came there.
  {
    MutexLock lock(&mu_);
    ended = question->end_reason;
  }
  if (ended) led_->EndAwaited(question->id.group_key, task_name_, *ended);
}

void ParamResolverDistributed::AskThere(const QuestionPtr& question,
                                        uint64_t ended_generation,
                                        bool wait_until_reachable) {
  auto message =
      EncodeMemberCall({.device = question->device,
                        .request = question->request,
                        .ended_generation = ended_generation,
                        .living_generation = question->living_generation,
                        .number = question->number});
  if (!message.ok()) return Finish(question, message.status());
  proto::ControlRequest request;
  *request.mutable_complete_params() = *std::move(message);
  int leader = 0;
  int attempt = 0;
  {
    MutexLock lock(&mu_);
    leader = question->leader;
    attempt = question->attempt;
  }
  options_.channel->Call(
      leader, std::move(request),
      {.cancellation = question->withdrawn,
       .wait_until_reachable = wait_until_reachable},
      [weak_self = weak_from_this(), question, leader,
       attempt](ControlAnswer reply) {
        const auto self = weak_self.lock();
        if (self == nullptr || !self->IsPresent(*question, attempt)) return;
        self->OnReply(question, leader, std::move(reply));
      });
}

void ParamResolverDistributed::OnAnswer(const QuestionPtr& question,
                                        const LeaderAnswer& answer) {
  if (answer.failed_generation != 0) {
    return OnFailure(question, answer.failed_generation,
                     answer.params.status());
  }
  if (!answer.params.ok()) return Finish(question, answer.params);
  const CollectiveParams& params = **answer.params;
  const auto group = Learn(params.group, this_task_);
  if (!group.ok()) return Finish(question, group.status());
  const SettledGroups::Member settled{question->request, *answer.params};
  {
    MutexLock lock(&mu_);
    settled_.AddMember(**group, question->device_name, settled);
  }
  FinishAllOf(*question, settled);
}

void ParamResolverDistributed::OnReply(const QuestionPtr& question, int leader,
                                       ControlAnswer reply) {
  if (absl::IsUnavailable(reply.status())) {
    if (options_.suspect != nullptr) options_.suspect(leader);
    return OnLeaderGone(question, reply.status());
  }
  if (!reply.ok()) return Finish(question, reply.status());
  OnReached(leader);
  const std::string who =
      absl::StrCat("the answer of ", options_.cluster.Label(leader), ": ");
  const proto::CompleteParamsReply& message = reply->complete_params();
  switch (message.kind_case()) {
    case proto::CompleteParamsReply::kSettled: {
      const Answer answer = Settle(*question, leader, message.settled());
      if (!answer.ok()) return Finish(question, Prefixed(who, answer.status()));
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

void ParamResolverDistributed::OnNotLeader(const QuestionPtr& question,
                                           int asked,
                                           const proto::NotLeader& message) {
  const auto lost = DecodeTasks(options_.cluster, message.lost_tasks());
  if (!lost.ok()) return Finish(question, lost.status());
  EndLedBy(*lost, question.get());
  const auto leader = options_.leadership->leader();
  if (!leader.ok() || *leader != asked) return Ask(question);
  AskAgainSoon(question,
               absl::UnavailableError(absl::StrCat(
                   options_.cluster.Label(*leader),
                   " does not lead, as far as it knows, though every task "
                   "before it has been lost, as far as this one knows")));
}

// The leader of a group that is formed for the first time may have known
// members that nobody else knows of: nobody is to wait for them. One that is
// formed again is formed of those who are left: by the next leader, once this
// one is known to be lost.
void ParamResolverDistributed::OnLeaderGone(const QuestionPtr& question,
                                            const absl::Status& reason) {
  bool is_formed_again = false;
  {
    MutexLock lock(&mu_);
    is_formed_again = reformed_.contains(question->id.group_key);
  }
  if (!is_formed_again) return Finish(question, reason);
  AskAgainSoon(question, reason);
}

void ParamResolverDistributed::AskAgainSoon(const QuestionPtr& question,
                                            const absl::Status& if_too_late) {
  Clock* const clock = options_.environment.clock;
  const absl::Time now = clock->Now();
  bool gives_up = false;
  int attempt = 0;
  {
    MutexLock lock(&mu_);
    attempt = question->attempt;
    if (!question->in_vain_since.has_value()) question->in_vain_since = now;
    gives_up = now - *question->in_vain_since > options_.takeover_limit;
  }
  if (gives_up) return Finish(question, if_too_late);
  clock->CallAt(now + kAskAgain,
                [weak_self = weak_from_this(), question, attempt] {
                  const auto self = weak_self.lock();
                  if (self != nullptr && self->IsPresent(*question, attempt)) {
                    self->Ask(question);
                  }
                });
}

void ParamResolverDistributed::OnFailure(const QuestionPtr& question,
                                         uint64_t generation,
                                         const absl::Status& reason) {
  absl::Status status = CheckGeneration("failure.generation", generation);
  if (!status.ok()) return Finish(question, status);
  if (generation == 0) return Finish(question, reason);
  const GroupKey key = question->id.group_key;
  const bool lived_here = generation == question->living_generation;
  if (lived_here) {
    options_.directory->End(key, generation, reason);
  } else {
    MutexLock lock(&mu_);
    failed_generations_[key] = generation;
  }
  Finish(question, reason);
}

ParamResolverDistributed::Answer ParamResolverDistributed::Settle(
    const Question& question, int leader, const proto::Settled& settled) {
  const auto found = LearnFrom(question, leader, settled.group());
  if (!found.ok()) return found.status();
  SettledGroups::Group& group = **found;
  const auto rank = group.rank_of_device.find(question.device_name);
  if (rank == group.rank_of_device.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "group.members lacks ", question.device_name, ", which asked"));
  }
  auto instance =
      FindOrDecode(question, group, rank->second, settled.instance());
  if (!instance.ok()) return instance.status();
  auto params = MakeMemberParams(group.params, *std::move(instance), group.task,
                                 rank->second);
  if (!params.ok()) return params.status();
  MutexLock lock(&mu_);
  settled_.AddMember(group, question.device_name, {question.request, *params});
  return params;
}

// The members of this task share what the first of them has learned.
absl::StatusOr<std::shared_ptr<const CollInstanceParams>>
ParamResolverDistributed::FindOrDecode(const Question& question,
                                       const SettledGroups::Group& group,
                                       int rank,
                                       const proto::Instance& message) {
  {
    MutexLock lock(&mu_);
    const auto found = group.instances.find(question.id.instance_key);
    if (found != group.instances.end()) return found->second.params;
  }
  auto decoded =
      DecodeInstance(*question.request, *group.params, rank, message);
  if (!decoded.ok()) return decoded.status();
  return std::make_shared<const CollInstanceParams>(*std::move(decoded));
}

absl::StatusOr<SettledGroups::GroupPtr> ParamResolverDistributed::LearnFrom(
    const Question& question, int leader, const proto::Group& message) {
  if (message.members_size() == 0) {
    MutexLock lock(&mu_);
    auto group = settled_.Find(question.id.group_key);
    if (group != nullptr && group->params->generation == message.generation()) {
      return group;
    }
    return absl::AbortedError(
        absl::StrCat("group ", question.id.group_key, " ended meanwhile"));
  }
  auto group = DecodeGroup(options_.cluster, *question.request, message);
  if (!group.ok()) return group.status();
  return Learn(*std::move(group), leader);
}

// The first of this task's members to hear of the group adds it for all.
// Whoever finds the leader lost ends what it knows to have been led by it:
// here, what was not known yet.
absl::StatusOr<SettledGroups::GroupPtr> ParamResolverDistributed::Learn(
    std::shared_ptr<const CollGroupParams> group, int leader) {
  const GroupKey key = group->key;
  const uint64_t generation = group->generation;
  options_.directory->Add(std::move(group));
  const auto living = options_.directory->Find(key, generation);
  if (!living.ok()) return living.status();
  SettledGroups::GroupPtr replaced;  // Freed without the lock.
  SettledGroups::GroupPtr added;
  bool is_new = false;
  {
    MutexLock lock(&mu_);
    const auto before = settled_.Find(key);
    added = settled_.Add(*living, &replaced);
    is_new = added != before;
    if (is_new) added->leader = leader;
    failed_generations_.erase(key);
    reformed_.erase(key);
  }
  if (is_new) {
    (*living)->cancellation->Watch([weak_self = weak_from_this(), key,
                                    generation](const absl::Status& reason) {
      const auto self = weak_self.lock();
      if (self != nullptr) self->OnGenerationEnded(key, generation, reason);
    });
  }
  if (is_new) {
    const auto leads_now = options_.leadership->leader();
    if (!leads_now.ok() || *leads_now != leader) {
      EndEverywhere(**living, LedByLost(leader));
    }
    EndIfLost(**living);
    EndGivenUpIn(**living);
  }
  return added;
}

// With members that were lost before the group was known, or replaced.
void ParamResolverDistributed::EndIfLost(const CollGroupParams& group) {
  if (options_.loss_of == nullptr) return;
  for (const CollGroupMember& member : group.members) {
    const absl::Status loss =
        options_.loss_of({member.device.name.task, member.device.incarnation});
    if (!loss.ok()) return EndEverywhere(group, loss);
  }
}

// --- What was given up -------------------------------------------------------

void ParamResolverDistributed::GiveUp(InstanceId instance, CallNumber number,
                                      const absl::Status& reason) {
  if (given_up_->IsOver(number.step_id,
                        GivenUpExecutions::Where::kOnAllTasks)) {
    return;
  }
  const ExecKey execution = KeyOf(instance, number);
  if (!given_up_->Add(execution, reason, /*is_own=*/true)) return;
  EndGivenUp(execution, reason);
  teller_->TellGivenUp(execution, reason);
}

absl::Status ParamResolverDistributed::OnGivenUp(const ControlCaller& caller,
                                                 const ExecKey& execution,
                                                 const absl::Status& reason) {
  const auto leader = options_.leadership->leader();
  if (!leader.ok() || (*leader != this_task_ && *leader != caller.task)) {
    return absl::UnavailableError(
        absl::StrCat(options_.cluster.Label(this_task_),
                     " does not lead, and does not take ",
                     options_.cluster.Label(caller.task), " for the leader"));
  }
  absl::Status status = CheckMayEnd(caller, execution.group);
  if (!status.ok()) return status;
  if (Note(execution, reason) && *leader == this_task_) {
    teller_->TellGivenUp(execution, reason);
  }
  return absl::OkStatus();
}

void ParamResolverDistributed::OnCancelled(ExecKey execution,
                                           const absl::Status& reason) {
  execution.generation = 0;
  Note(execution, reason);
}

// False if it was known before. What comes too late for the step is not to end
// what it begins anew.
bool ParamResolverDistributed::Note(const ExecKey& execution,
                                    const absl::Status& reason) {
  if (given_up_->IsOver(execution.step, GivenUpExecutions::Where::kHere) ||
      !given_up_->Add(execution, reason, /*is_own=*/false)) {
    return false;
  }
  EndGivenUp(execution, reason);
  return true;
}

// What asks for it, and what runs it, being told how it is settled just before.
void ParamResolverDistributed::EndGivenUp(const ExecKey& execution,
                                          const absl::Status& reason) {
  for (const QuestionPtr& question :
       QuestionsWhere([&](const Question& question) {
         return KeyOf(question.id, question.number) == execution;
       })) {
    Finish(question, reason);
  }
  SettledGroups::GroupPtr group;
  {
    MutexLock lock(&mu_);
    group = settled_.Find(execution.group);
  }
  if (group == nullptr || options_.cancel_execution == nullptr) return;
  ExecKey settled = execution;
  settled.generation = group->params->generation;
  options_.cancel_execution(settled, reason);
}

// Members may come to it now without asking: in another order than others, or
// to what they have prepared.
void ParamResolverDistributed::EndGivenUpIn(const CollGroupParams& group) {
  if (options_.cancel_execution == nullptr) return;
  for (auto& [execution, reason] : given_up_->OfGroup(group.key)) {
    execution.generation = group.generation;
    options_.cancel_execution(execution, reason);
  }
}

// The former one may not have told the others.
void ParamResolverDistributed::OnLeaderChanged() {
  for (const auto& [execution, reason] : given_up_->Own()) {
    teller_->TellGivenUp(execution, reason);
  }
}

// --- Ends --------------------------------------------------------------------

// With something that all tasks hear of: there is nobody to tell.
void ParamResolverDistributed::EndWithAll(const QuestionPtr& question,
                                          const absl::Status& reason) {
  given_up_->Add(KeyOf(question->id, question->number), reason,
                 /*is_own=*/false);
  Finish(question, reason);
}

// Whoever set the group's cancellation.
void ParamResolverDistributed::OnGenerationEnded(GroupKey key,
                                                 uint64_t generation,
                                                 const absl::Status& reason) {
  options_.directory->End(key, generation, reason);
  SettledGroups::GroupPtr removed;
  {
    MutexLock lock(&mu_);
    removed = settled_.Remove(key, generation);
  }
  for (const QuestionPtr& question :
       QuestionsWhere([&](const Question& question) {
         return question.id.group_key == key &&
                question.living_generation == generation;
       })) {
    Finish(question, reason);
  }
}

std::vector<ParamResolverDistributed::QuestionPtr>
ParamResolverDistributed::QuestionsWhere(
    absl::FunctionRef<bool(const Question&)> matches) {
  std::vector<QuestionPtr> found;
  MutexLock lock(&mu_);
  for (const auto& [id, of_instance] : questions_) {
    for (const auto& [name, question] : of_instance) {
      if (matches(*question)) found.push_back(question);
    }
  }
  return found;
}

void ParamResolverDistributed::EndGroup(GroupKey group_key,
                                        absl::Status reason) {
  if (reason.ok()) reason = absl::CancelledError("the group was ended");
  SettledGroups::GroupPtr group;
  uint64_t failed_generation = 0;
  {
    MutexLock lock(&mu_);
    reformed_.insert(group_key);
    group = settled_.Find(group_key);
    const auto failed = failed_generations_.find(group_key);
    if (failed != failed_generations_.end()) {
      failed_generation = failed->second;
      failed_generations_.erase(failed);
    }
  }
  if (group != nullptr) {
    EndEverywhere(*group->params, reason);
    // Another thread may have ended it, and not come to this yet.
    return OnGenerationEnded(group_key, group->params->generation, reason);
  }
  EndAwaited(group_key, reason);
  if (failed_generation == 0) return;
  options_.directory->End(group_key, failed_generation, reason);
  led_->EndGeneration(group_key, failed_generation, reason);
  const auto leader = options_.leadership->leader();
  if (leader.ok() && *leader != this_task_) {
    teller_->TellGroupEnd(*leader, group_key, failed_generation, reason);
  }
}

void ParamResolverDistributed::EndEverywhere(const CollGroupParams& group,
                                             const absl::Status& reason) {
  const GroupKey key = group.key;
  const uint64_t generation = group.generation;
  const bool is_first = options_.directory->End(key, generation, reason);
  led_->EndGeneration(key, generation, reason);
  if (!is_first) return;  // Whoever was tells the others.
  teller_->TellGroupEnd(group, reason);
}

// What is asked for stays until it is answered, for the group may be settled
// just now: then it ends with the answer.
void ParamResolverDistributed::EndAwaited(GroupKey key,
                                          const absl::Status& reason) {
  std::vector<QuestionPtr> waiting;
  {
    MutexLock lock(&mu_);
    for (const auto& [id, of_instance] : questions_) {
      if (id.group_key != key) continue;
      for (const auto& [name, question] : of_instance) {
        if (!question->end_reason.has_value()) question->end_reason = reason;
        waiting.push_back(question);
      }
    }
  }
  if (waiting.empty()) return;
  const auto leader = options_.leadership->leader();
  if (!leader.ok()) {
    for (const QuestionPtr& question : waiting) Finish(question, reason);
    return;
  }
  if (*leader == this_task_) return led_->EndAwaited(key, task_name_, reason);
  const absl::Time give_up =
      options_.environment.clock->Now() + EndTeller::kLimit;
  TellEnd(key, waiting, *leader, give_up);
}

// Again if need be: a call may come to the leader after the word of its end.
void ParamResolverDistributed::TellEnd(
    GroupKey key, const std::vector<QuestionPtr>& questions, int leader,
    absl::Time give_up) {
  std::vector<QuestionPtr> waiting;
  absl::Status reason;
  {
    MutexLock lock(&mu_);
    for (const QuestionPtr& question : questions) {
      if (!IsPresent(*question) || question->leader != leader) continue;
      reason = *question->end_reason;
      waiting.push_back(question);
    }
  }
  if (waiting.empty()) return;
  teller_->TellGroupEnd(
      leader, key, /*generation=*/0, reason,
      [self = shared_from_this(), key, waiting, leader, give_up,
       reason](const absl::Status& told) {
        Clock* const clock = self->options_.environment.clock;
        const absl::Time now = clock->Now();
        if (told.ok() && now < give_up) {
          clock->CallAt(now + kAskAgain, [weak_self = std::weak_ptr(self), key,
                                          waiting, leader, give_up] {
            const auto again = weak_self.lock();
            if (again == nullptr) return;
            again->TellEnd(key, waiting, leader, give_up);
          });
          return;
        }
        for (const QuestionPtr& question : waiting) {
          self->Finish(question, reason);
        }
      });
}

absl::Status ParamResolverDistributed::OnEndGroup(
    const ControlCaller& caller, const proto::EndGroup& message) {
  absl::Status status = CheckGeneration("generation", message.generation());
  if (status.ok()) status = CheckError(message.reason());
  if (!status.ok()) return status;
  const auto lost = DecodeTasks(options_.cluster, message.lost_tasks());
  if (!lost.ok()) return lost.status();
  const absl::Status reason = DecodeError(message.reason());
  const GroupKey key = message.group_key();
  if (message.generation() == 0) {
    led_->EndAwaited(key, options_.cluster.TaskName(caller.task), reason);
    return absl::OkStatus();
  }
  bool is_known = led_->HasGroup(key);
  {
    MutexLock lock(&mu_);
    is_known = is_known || settled_.Find(key) != nullptr;
  }
  const bool asks = !QuestionsWhere([key](const Question& question) {
                       return question.id.group_key == key;
                     }).empty();
  if (!is_known && !asks) return absl::OkStatus();
  status = CheckMayEnd(caller, key);
  if (!status.ok()) return status;
  options_.directory->End(key, message.generation(), reason);
  led_->EndGeneration(key, message.generation(), reason);
  OnMayNotLead(*lost);
  return absl::OkStatus();
}

// Whoever is in the group as this task knows it, and who leads.
absl::Status ParamResolverDistributed::CheckMayEnd(const ControlCaller& caller,
                                                   GroupKey key) {
  SettledGroups::GroupPtr group;
  {
    MutexLock lock(&mu_);
    group = settled_.Find(key);
  }
  const bool is_stranger =
      group == nullptr
          ? led_->IsFormedWithout(key, options_.cluster.TaskName(caller.task))
          : !TasksOf(*group->params).contains(caller.task);
  if (!is_stranger) return absl::OkStatus();
  const auto leader = options_.leadership->leader();
  if (leader.ok() && *leader == caller.task) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(options_.cluster.Label(caller.task), " is not in group ",
                   key, " and cannot end it"));
}

void ParamResolverDistributed::OnTaskLost(int task,
                                          const absl::Status& reason) {
  {
    MutexLock lock(&mu_);
    reached_.erase(task);
  }
  const bool led = options_.leadership->MarkLost(task);
  for (const auto& group : options_.directory->Living()) {
    if (TasksOf(*group).contains(task)) EndEverywhere(*group, reason);
  }
  led_->EndTask(options_.cluster.TaskName(task), reason);
  if (led) EndWhatWasLed(task, reason);
  EndWhatAsks(task, reason, /*answered=*/nullptr);
  if (led) OnLeaderChanged();
}

void ParamResolverDistributed::OnRefused(const absl::Status& why) {
  {
    MutexLock lock(&mu_);
    if (!refused_.ok()) return;
    refused_ = why;
  }
  for (const auto& group : options_.directory->Living()) {
    options_.directory->End(group->key, group->generation, why);
  }
  for (const QuestionPtr& question :
       QuestionsWhere([](const Question&) { return true; })) {
    EndWithAll(question, why);
  }
}

void ParamResolverDistributed::OnMayNotLead(const std::vector<int>& tasks) {
  EndLedBy(tasks, /*answered=*/nullptr);
}

// What one of them has answered is asked again.
void ParamResolverDistributed::EndLedBy(const std::vector<int>& tasks,
                                        const Question* answered) {
  for (int task : tasks) {
    if (!options_.leadership->MarkLost(task)) continue;
    EndWhatWasLed(task, LedByLost(task));
    EndWhatAsks(task, LedByLost(task), answered);
    OnLeaderChanged();
  }
}

absl::Status ParamResolverDistributed::LedByLost(int task) const {
  return absl::UnavailableError(absl::StrCat(
      options_.cluster.Label(task), " was lost, and had led the group"));
}

// Not all members need have heard what the former leader settled. What the next
// one has settled meanwhile lives on.
void ParamResolverDistributed::EndWhatWasLed(int task,
                                             const absl::Status& reason) {
  for (const auto& group : options_.directory->Living()) {
    bool was_led = false;
    {
      MutexLock lock(&mu_);
      const auto found = settled_.Find(group->key);
      was_led = found != nullptr && found->leader == task &&
                found->params->generation == group->generation;
    }
    if (was_led) EndEverywhere(*group, reason);
  }
}

void ParamResolverDistributed::EndWhatAsks(int leader,
                                           const absl::Status& reason,
                                           const Question* answered) {
  for (const QuestionPtr& question :
       QuestionsWhere([&](const Question& question) {
         return question.leader == leader && &question != answered;
       })) {
    OnLeaderGone(question, reason);
  }
}

void ParamResolverDistributed::OnFound(int task) {
  OnReached(task);
  for (const auto& group : options_.directory->Living()) {
    if (TasksOf(*group).contains(task)) EndIfLost(*group);
  }
}

void ParamResolverDistributed::OnReached(int task) {
  MutexLock lock(&mu_);
  reached_.insert(task);
}

size_t ParamResolverDistributed::num_waiting() {
  MutexLock lock(&mu_);
  return num_questions_;
}

size_t ParamResolverDistributed::num_entries() {
  MutexLock lock(&mu_);
  return settled_.num_entries();
}

}  // namespace tutti
