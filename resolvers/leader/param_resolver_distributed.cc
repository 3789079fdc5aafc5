#include "resolvers/leader/param_resolver_distributed.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/callbacks.h"
#include "framework/base/status_macros.h"
#include "framework/collective/request_fields.h"
#include "framework/control/wire_codec.h"
#include "resolvers/local/group_builder.h"
#include "resolvers/local/led_groups.h"
#include "resolvers/messages/control_codec.h"

namespace tutti {
namespace {

bool HasMemberOf(const CollGroupParams& group, const ControlCaller& process) {
  const auto [task, incarnation] = process;
  return std::any_of(
      group.members.begin(), group.members.end(),
      [&](const CollGroupMember& member) {
        return member.device.name.task == task &&
               (incarnation == 0 || member.device.incarnation == incarnation);
      });
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
      reporter_(std::make_shared<EndReporter>(options_)) {}

void ParamResolverDistributed::Initialize() {
  led_ = ParamResolverLocal::Create(
      {.policy = options_.policy,
       .max_entries = options_.max_entries,
       .task_name = task_name_,
       .formed_group_failed =
           IfAlive(weak_from_this(), &ParamResolverDistributed::EndEverywhere),
       .new_groups_changed = options_.waits_changed});
  leader_service_ = std::make_shared<LeaderService>(options_, led_, given_up_);
  client_ = std::make_unique<LeaderClient>(
      options_, LeaderClient::Parts{led_, reporter_, given_up_}, this,
      shared_from_this());
}

ParamResolverDistributed::~ParamResolverDistributed() {
  const absl::Status reason = absl::CancelledError("the resolver shut down");
  client_->EndAll(reason);
  led_->EndAll(reason);
}

void ParamResolverDistributed::CompleteGroupAsync(
    const DeviceAttributes& device, const CollectiveRequest& request,
    std::shared_ptr<Cancellation> cancellation, GroupDone done) {
  auto of_group = RequestOfGroup(request);
  if (!of_group.ok()) return std::move(done)(of_group.status());
  client_->Request(device, *std::move(of_group), /*number=*/std::nullopt,
                   std::move(cancellation),
                   [done = std::move(done)](const auto& params) mutable {
                     if (!params.ok()) return std::move(done)(params.status());
                     std::move(done)((*params)->group);
                   });
}

void ParamResolverDistributed::CompleteInstanceAsync(
    const DeviceAttributes& device,
    std::shared_ptr<const CollectiveRequest> request, CallNumber number,
    std::shared_ptr<Cancellation> cancellation, Done done) {
  client_->Request(device, std::move(request), number, std::move(cancellation),
                   std::move(done));
}

// Ends the group if it was led by a task that is lost by now. OnTaskLost() ends
// only groups that are known by then.
void ParamResolverDistributed::OnLearned(const CollGroupParams& group,
                                         int leader) {
  group.cancellation->Watch(
      IfAlive(weak_from_this(), &ParamResolverDistributed::OnGenerationEnded,
              group.key, group.generation));
  const auto leads_now = options_.leadership->leader();
  if (!leads_now.ok() || *leads_now != leader) {
    EndEverywhere(group, LedByLost(leader));
  }
  EndIfLost(group);
  EndGivenUpIn(group);
}

// Ends a group with members that were lost or replaced before the group was
// known.
void ParamResolverDistributed::EndIfLost(const CollGroupParams& group) {
  if (options_.loss_of == nullptr) return;
  for (const CollGroupMember& member : group.members) {
    const absl::Status loss =
        options_.loss_of({member.device.name.task, member.device.incarnation});
    if (!loss.ok()) return EndEverywhere(group, loss);
  }
}

// --- Given-up executions ----------------------------------------------------

void ParamResolverDistributed::GiveUp(InstanceId instance, CallNumber number,
                                      const absl::Status& reason) {
  const GivenUp given_up = {KeyOf(instance, number), reason, /*is_own=*/true};
  if (!given_up_->Add(given_up)) return;
  EndGivenUp(given_up.execution, reason);
  reporter_->ReportGivenUp(given_up);
}

absl::Status ParamResolverDistributed::OnGivenUp(const ControlCaller& caller,
                                                 const GivenUp& given_up) {
  const auto leader = options_.leadership->leader();
  if (!leader.ok() || (*leader != this_task_ && *leader != caller.task)) {
    return absl::UnavailableError(
        absl::StrCat(options_.cluster.Label(this_task_),
                     " does not lead, and does not take ",
                     options_.cluster.Label(caller.task), " for the leader"));
  }
  RETURN_IF_ERROR(CheckMayEnd(caller, given_up.execution.group));
  if (Note(given_up) && *leader == this_task_)
    reporter_->ReportGivenUp(given_up);
  return absl::OkStatus();
}

void ParamResolverDistributed::OnCancelled(const ControlCaller& caller,
                                           ExecKey execution,
                                           const absl::Status& reason) {
  // Check: the process that runs the execution may not know the generation.
  if (!CheckMayEnd(caller, execution.group).ok()) return;
  execution.generation = 0;
  Note({.execution = execution, .reason = reason});
}

// Returns false if the execution was known before, or if its step has ended.
bool ParamResolverDistributed::Note(const GivenUp& given_up) {
  if (!given_up_->Add(given_up)) return false;
  EndGivenUp(given_up.execution, given_up.reason);
  return true;
}

// Ends the requests of the execution, and the execution itself: its instance
// may just have been settled.
void ParamResolverDistributed::EndGivenUp(const ExecKey& execution,
                                          const absl::Status& reason) {
  client_->EndExecution(execution, reason);
  const auto group = client_->FindGroup(execution.group);
  if (group == nullptr || options_.cancel_execution == nullptr) return;
  ExecKey settled = execution;
  settled.generation = group->generation;
  options_.cancel_execution(settled, reason);
}

// Ends the executions of the group that were given up. From now on members may
// reach them without a request: in another order than other members, or from a
// preparation.
void ParamResolverDistributed::EndGivenUpIn(const CollGroupParams& group) {
  if (options_.cancel_execution == nullptr) return;
  for (GivenUp& given_up : given_up_->OfGroup(group.key)) {
    given_up.execution.generation = group.generation;
    options_.cancel_execution(given_up.execution, given_up.reason);
  }
}

// Reports again: the former leader may not have reported.
void ParamResolverDistributed::OnLeaderChanged() {
  for (const GivenUp& given_up : given_up_->Own()) {
    reporter_->ReportGivenUp(given_up);
  }
}

// --- Ends --------------------------------------------------------------------

// Runs on the thread that set the group's cancellation.
void ParamResolverDistributed::OnGenerationEnded(GroupKey key,
                                                 uint64_t generation,
                                                 const absl::Status& reason) {
  options_.directory->End(key, generation, reason);
  client_->EndGeneration(key, generation, reason);
}

void ParamResolverDistributed::EndGroup(GroupKey group_key,
                                        absl::Status reason) {
  if (reason.ok()) reason = absl::CancelledError("the group was ended");
  const auto [group, failed_generation] = client_->BeginAgain(group_key);
  if (group != nullptr) {
    EndEverywhere(*group, reason);
    // Another thread may have ended it, but not called this yet.
    return OnGenerationEnded(group_key, group->generation, reason);
  }
  client_->EndAwaited(group_key, reason);
  if (failed_generation == 0) return;
  options_.directory->End(group_key, failed_generation, reason);
  led_->EndGeneration(group_key, failed_generation, reason);
  const auto leader = options_.leadership->leader();
  if (leader.ok() && *leader != this_task_) {
    reporter_->ReportGroupEnd(*leader, group_key, failed_generation, reason);
  }
}

void ParamResolverDistributed::EndEverywhere(const CollGroupParams& group,
                                             const absl::Status& reason) {
  const GroupKey key = group.key;
  const uint64_t generation = group.generation;
  const bool is_first = options_.directory->End(key, generation, reason);
  led_->EndGeneration(key, generation, reason);
  if (!is_first) return;  // The first call sends the messages.
  reporter_->ReportGroupEnd(group, reason);
}

absl::Status ParamResolverDistributed::OnEndGroup(
    const ControlCaller& caller, const proto::EndGroup& message) {
  RETURN_IF_ERROR(CheckGeneration("generation", message.generation()));
  RETURN_IF_ERROR(CheckError(message.reason()));
  ASSIGN_OR_RETURN(const auto lost,
                   DecodeTasks(options_.cluster, message.lost_tasks()));
  const absl::Status reason = DecodeError(message.reason());
  const GroupKey key = message.group_key();
  if (message.generation() == 0) {
    led_->EndAwaited(key, options_.cluster.TaskName(caller.task), reason);
    return absl::OkStatus();
  }
  const bool is_known =
      led_->HasGroup(key) || client_->FindGroup(key) != nullptr;
  if (!is_known && !client_->IsAwaited(key)) return absl::OkStatus();
  RETURN_IF_ERROR(CheckMayEnd(caller, key));
  RETURN_IF_ERROR(CheckCanEnd(caller, key, message.generation()));
  const auto group = options_.directory->Find(key, message.generation());
  const bool is_first =
      options_.directory->End(key, message.generation(), reason);
  led_->EndGeneration(key, message.generation(), reason);
  if (is_first && group.ok()) PassOnEnd(caller.task, **group, reason);
  OnMayNotLead(lost, /*answered=*/nullptr);
  return absl::OkStatus();
}

// Reports the end that `from` has reported to tasks that it may be unable to
// reach.
void ParamResolverDistributed::PassOnEnd(int from, const CollGroupParams& group,
                                         const absl::Status& reason) {
  for (int task : NextTasksOf(group, this_task_, kNumNextTasks)) {
    if (task == from) continue;
    reporter_->ReportGroupEnd(task, group.key, group.generation, reason);
  }
}

// Permits the members of the group, as this task knows it, and the leader. An
// ended generation counts as unknown: the next one may have other members.
absl::Status ParamResolverDistributed::CheckMayEnd(const ControlCaller& caller,
                                                   GroupKey key) {
  auto group = client_->FindGroup(key);
  if (group != nullptr &&
      group->generation <= options_.directory->EndedGeneration(key)) {
    group = nullptr;  // The thread that ends it has not removed it yet.
  }
  const bool is_stranger =
      group == nullptr
          ? led_->IsFormedWithout(key, options_.cluster.TaskName(caller.task))
          : !TasksOf(*group).contains(caller.task);
  if (!is_stranger) return absl::OkStatus();
  const auto leader = options_.leadership->leader();
  if (leader.ok() && *leader == caller.task) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(options_.cluster.Label(caller.task), " is not in group ",
                   key, " and cannot end it"));
}

// Permits any generation to the leader, which counts the generations itself.
absl::Status ParamResolverDistributed::CheckCanEnd(const ControlCaller& caller,
                                                   GroupKey key,
                                                   uint64_t generation) {
  const auto leader = options_.leadership->leader();
  if (leader.ok() && *leader == caller.task) return absl::OkStatus();
  const auto group = client_->FindGroup(key);
  const uint64_t known = std::max({options_.directory->EndedGeneration(key),
                                   led_->last_generation(),
                                   group == nullptr ? 0 : group->generation});
  const uint64_t limit = known + kMaxGenerationsAhead;
  if (generation <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("generation of group ", key, ", which ",
                   options_.cluster.Label(caller.task), " says has ended, is ",
                   generation, "; wanted at most ", limit));
}

void ParamResolverDistributed::OnTaskLost(const ControlCaller& process,
                                          const absl::Status& reason) {
  const auto [task, incarnation] = process;
  client_->OnLost(task);
  const bool led = options_.leadership->MarkLost(task);
  for (const auto& group : options_.directory->Living()) {
    if (HasMemberOf(*group, process)) EndEverywhere(*group, reason);
  }
  led_->EndTask(options_.cluster.TaskName(task), incarnation, reason);
  if (led) EndWhatWasLed(task, reason);
  client_->OnLeaderGone(task, reason, /*answered=*/nullptr);
  if (led) OnLeaderChanged();
}

void ParamResolverDistributed::OnRefused(const absl::Status& why) {
  if (!client_->Refuse(why)) return;
  for (const auto& group : options_.directory->Living()) {
    options_.directory->End(group->key, group->generation, why);
  }
  client_->EndAll(why);
}

void ParamResolverDistributed::OnMayNotLead(const std::vector<int>& tasks,
                                            const LeaderRequest* answered) {
  for (int task : tasks) {
    if (!options_.leadership->MarkLost(task)) continue;
    EndWhatWasLed(task, LedByLost(task));
    client_->OnLeaderGone(task, LedByLost(task), answered);
    OnLeaderChanged();
  }
}

absl::Status ParamResolverDistributed::LedByLost(int task) const {
  return absl::UnavailableError(absl::StrCat(
      options_.cluster.Label(task), " was lost, and had led the group"));
}

// Ends the groups that `task` led: not all members may have heard what it
// settled. Groups settled by the next leader live on.
void ParamResolverDistributed::EndWhatWasLed(int task,
                                             const absl::Status& reason) {
  for (const auto& group : options_.directory->Living()) {
    if (client_->WasSettledBy(task, *group)) EndEverywhere(*group, reason);
  }
}

void ParamResolverDistributed::OnFound(int task) {
  client_->OnReached(task);
  for (const auto& group : options_.directory->Living()) {
    if (TasksOf(*group).contains(task)) EndIfLost(*group);
  }
}

}  // namespace tutti
