#include "resolvers/local/param_resolver_local.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/callbacks.h"
#include "framework/base/status_macros.h"
#include "framework/choice/why_not.h"
#include "framework/collective/request_fields.h"
#include "resolvers/local/group_builder.h"
#include "resolvers/local/instance_check.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

constexpr uint64_t kAnyGeneration = UINT64_MAX;

bool Serves(const ImplementationTraits& traits, const std::string& type) {
  const auto& types = traits.device_types;
  return types.empty() ||
         std::find(types.begin(), types.end(), type) != types.end();
}

absl::Status InitializeRuntimeDetails(const CollectiveRegistry& registry,
                                      CollGroupParams* group) {
  for (const auto& [name, factory] : registry.List()) {
    const ImplementationTraits& traits = factory->traits();
    if (!Serves(traits, group->device_type)) continue;
    if (!WhyNotOn(*group, traits.device_needs).empty()) continue;
    RETURN_IF_ERROR(
        factory->Create()->InitializeCollectiveGroupRuntimeDetails(group));
  }
  return absl::OkStatus();
}

// Error for later callers of a group that failed with `status`.
absl::Status FailedForGood(const absl::Status& status, absl::string_view end) {
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "; the group has failed: ",
                                   end, " begins it anew"));
}

}  // namespace

std::shared_ptr<ParamResolverLocal> ParamResolverLocal::Create(
    Options options) {
  return std::shared_ptr<ParamResolverLocal>(
      new ParamResolverLocal(std::move(options)));
}

ParamResolverLocal::ParamResolverLocal(Options options)
    : options_(std::move(options)),
      groups_({.max_entries = options_.max_entries,
               .max_groups = options_.max_groups}) {}

ParamResolverLocal::~ParamResolverLocal() {
  EndAll(absl::CancelledError("the resolver shut down"));
}

void ParamResolverLocal::EndAll(const absl::Status& reason) {
  std::vector<GroupKey> keys;
  {
    MutexLock lock(&mu_);
    keys = groups_.Keys();
  }
  for (GroupKey key : keys) EndGroup(key, reason);
}

void ParamResolverLocal::CompleteGroupAsync(
    const DeviceAttributes& device, const CollectiveRequest& request,
    std::shared_ptr<Cancellation> cancellation, GroupDone done) {
  auto of_group = RequestOfGroup(request);
  if (!of_group.ok()) return std::move(done)(of_group.status());
  Join({.device = device,
        .request = *std::move(of_group),
        .cancellation = std::move(cancellation),
        .group_only = true},
       [done = std::move(done)](const LeaderAnswer& answer) mutable {
         if (!answer.params.ok())
           return std::move(done)(answer.params.status());
         std::move(done)((*answer.params)->group);
       });
}

void ParamResolverLocal::CompleteInstanceAsync(
    const DeviceAttributes& device,
    std::shared_ptr<const CollectiveRequest> request, CallNumber /*number*/,
    std::shared_ptr<Cancellation> cancellation, Done done) {
  Join({.device = device,
        .request = std::move(request),
        .cancellation = std::move(cancellation)},
       [done = std::move(done)](LeaderAnswer answer) mutable {
         std::move(done)(std::move(answer.params));
       });
}

void ParamResolverLocal::Join(MemberCall member,
                              absl::AnyInvocable<void(LeaderAnswer) &&> done) {
  const auto call = std::make_shared<WaitingCall>(
      WaitingCall{.device = std::move(member.device),
                  .request = std::move(member.request),
                  .done = std::move(done),
                  .ended_generation = member.ended_generation,
                  .living_generation = member.living_generation,
                  .group_only = member.group_only,
                  .requests_once = member.requests_once,
                  .is_remote = member.is_remote});
  call->device_name = call->device.name.ToString();
  LeaderOutbox outbox;
  {
    MutexLock lock(&mu_);
    Arrive(call, &outbox);
  }
  const bool answered =
      std::any_of(outbox.answers.begin(), outbox.answers.end(),
                  [&](const auto& answer) { return answer.first == call; });
  if (!answered && member.cancellation != nullptr) {
    member.cancellation->Watch(IfAlive(weak_from_this(),
                                       &ParamResolverLocal::OnCancelled,
                                       std::weak_ptr<WaitingCall>(call)));
  }
  Deliver(std::move(outbox));
}

void ParamResolverLocal::Deliver(LeaderOutbox outbox) {
  for (size_t i = 0; i < outbox.jobs.size(); ++i) {
    auto job = std::move(outbox.jobs[i]);  // The job may add others.
    std::move(job)(&outbox);
  }
  for (const auto& [group, reason] : outbox.failed_groups) {
    if (options_.formed_group_failed == nullptr) break;
    options_.formed_group_failed(*group, reason);
  }
  for (auto& [cancellation, reason] : outbox.ended_groups) {
    cancellation->Cancel(std::move(reason));
  }
  for (auto& [call, answer] : outbox.answers) {
    std::move(call->done)(std::move(answer));
  }
  // Runs after the members know of their group: a watcher of the members can go
  // on.
  if (outbox.new_groups_changed && options_.new_groups_changed != nullptr) {
    options_.new_groups_changed();
  }
}

void ParamResolverLocal::Arrive(const WaitingCallPtr& call,
                                LeaderOutbox* outbox) {
  const bool is_alone = options_.task_name.empty();
  if (absl::Status status = groups_.CheckEndedGeneration(*call); !status.ok()) {
    outbox->answers.emplace_back(call, LeaderAnswer{std::move(status)});
    return;
  }
  groups_.LeaveEndedGeneration(*call, outbox);
  const auto found = groups_.FindOrAdd(*call, outbox);
  if (!found.ok()) {
    outbox->answers.emplace_back(
        call, LeaderAnswer{found.status(), call->living_generation});
    return;
  }
  const LedGroupPtr& group = *found;
  if (!group->status.ok()) {
    outbox->answers.emplace_back(
        call, LeaderAnswer{is_alone ? FailedForGood(group->status, "EndGroup()")
                                    : group->status,
                           group->generation});
    return;
  }
  absl::Status status = group->builder.Join(call->device, *call->request);
  if (status.ok() && group->params != nullptr) {
    return ArriveAtInstance(group, call, outbox);
  }
  group->waiting.Add(call);
  if (status.ok() && group->builder.complete() &&
      group->cancellation == nullptr) {
    status = BeginForming(group, outbox);
  }
  if (status.ok()) return;
  // In several processes a later caller may be of the failing execution, whose
  // members get the same error.
  if (!is_alone) status = FailedForGood(status, "ReformGroup()");
  if (group->params != nullptr) {
    outbox->failed_groups.emplace_back(group->params, status);
  }
  groups_.Fail(*group, std::move(status), outbox);
}

absl::Status ParamResolverLocal::BeginForming(const LedGroupPtr& group,
                                              LeaderOutbox* outbox) {
  ASSIGN_OR_RETURN(auto built, group->builder.Build(group->generation));
  auto params = std::make_shared<CollGroupParams>(std::move(built));
  group->cancellation = params->cancellation;
  outbox->jobs.emplace_back(
      [this, group, params = std::move(params)](LeaderOutbox* next) {
        FormGroup(group, params, next);
      });
  return absl::OkStatus();
}

// Completes a group. Meanwhile calls may come and leave, and the group may end.
void ParamResolverLocal::FormGroup(const LedGroupPtr& group,
                                   std::shared_ptr<CollGroupParams> params,
                                   LeaderOutbox* outbox) {
  absl::Status status =
      InitializeRuntimeDetails(*options_.policy.registry, params.get());
  auto task = std::make_shared<const CollTaskParams>(
      MembersOfTask(*params, options_.task_name));
  MutexLock lock(&mu_);
  if (!group->status.ok()) return;
  if (!status.ok()) return groups_.Fail(*group, std::move(status), outbox);
  groups_.SetFormed(*group, std::move(params), std::move(task), outbox);
  for (const WaitingCallPtr& call : group->waiting.TakeAll()) {
    ArriveAtInstance(group, call, outbox);
  }
}

void ParamResolverLocal::ArriveAtInstance(const LedGroupPtr& group,
                                          const WaitingCallPtr& call,
                                          LeaderOutbox* outbox) {
  const LedInstancePtr arrived = groups_.ArriveAtInstance(*group, call, outbox);
  if (arrived == nullptr) return;
  outbox->jobs.emplace_back([this, group, key = call->request->instance_key,
                             arrived](LeaderOutbox* next) {
    SettleInstance(group, key, arrived, next);
  });
}

// Completes an instance whose requests have all arrived. Meanwhile further
// calls may come and leave, and the group may end.
void ParamResolverLocal::SettleInstance(const LedGroupPtr& group,
                                        InstanceKey key,
                                        const LedInstancePtr& instance,
                                        LeaderOutbox* outbox) {
  auto completed = CompleteInstance(options_.policy, group->params, group->task,
                                    instance->requests);
  MutexLock lock(&mu_);
  if (!group->status.ok()) return;
  for (WaitingCallPtr& call : instance->waiting.TakeAll()) {
    const int rank = group->rank_of_device.at(call->device_name);
    outbox->answers.emplace_back(
        std::move(call), completed.ok() ? LeaderAnswer{(*completed)[rank]}
                                        : LeaderAnswer{completed.status()});
  }
  if (!completed.ok()) return groups_.DropInstance(*group, key, outbox);
  groups_.SetCompleted(*group, *instance, *std::move(completed), outbox);
}

void ParamResolverLocal::OnCancelled(
    const std::weak_ptr<WaitingCall>& weak_call, const absl::Status& reason) {
  const WaitingCallPtr call = weak_call.lock();
  if (call == nullptr) return;
  LeaderOutbox outbox;
  {
    MutexLock lock(&mu_);
    if (!groups_.Leave(call, reason, &outbox)) return;
  }
  Deliver(std::move(outbox));
}

std::string ParamResolverLocal::DescribeWaiting(
    const CollectiveRequest& request) {
  MutexLock lock(&mu_);
  const LedGroup* const group = groups_.Find(request.group_key);
  return group == nullptr ? "" : group->DescribeWaiting(request.instance_key);
}

void ParamResolverLocal::EndGroup(GroupKey group_key, absl::Status reason) {
  EndGeneration(group_key, kAnyGeneration, std::move(reason));
}

void ParamResolverLocal::EndGeneration(GroupKey group_key, uint64_t generation,
                                       absl::Status reason) {
  if (reason.ok()) reason = absl::CancelledError("the group was ended");
  LeaderOutbox outbox;
  {
    MutexLock lock(&mu_);
    LedGroup* const group = groups_.Find(group_key);
    if (group == nullptr || group->generation > generation) return;
    // Message of a former leader: no process knows the number of a forming
    // group.
    if (generation != kAnyGeneration && group->is_forming()) {
      return groups_.Renew(*group, generation);
    }
    groups_.Drop(group_key, std::move(reason), &outbox);
  }
  Deliver(std::move(outbox));
}

void ParamResolverLocal::EndAwaited(GroupKey group_key,
                                    absl::string_view task_name,
                                    absl::Status reason) {
  if (reason.ok()) reason = absl::CancelledError("the group was ended");
  LeaderOutbox outbox;
  {
    MutexLock lock(&mu_);
    const LedGroup* const group = groups_.Find(group_key);
    if (group == nullptr) return;
    // If all members have come, the task may not have heard so.
    if (!group->IsAwaitedBy(task_name) && !group->IsFormedWith(task_name)) {
      return;
    }
    if (group->params != nullptr) {
      outbox.failed_groups.emplace_back(group->params, reason);
    }
    groups_.Drop(group_key, std::move(reason), &outbox);
  }
  Deliver(std::move(outbox));
}

void ParamResolverLocal::EndTask(absl::string_view task_name,
                                 uint64_t incarnation,
                                 const absl::Status& reason) {
  LeaderOutbox outbox;
  {
    MutexLock lock(&mu_);
    groups_.DropTask(task_name, incarnation, reason, &outbox);
  }
  Deliver(std::move(outbox));
}

void ParamResolverLocal::SetDevicesLeft(int64_t num_devices,
                                        absl::Status reason) {
  LeaderOutbox outbox;
  {
    MutexLock lock(&mu_);
    groups_.SetDevicesLeft(num_devices, std::move(reason), &outbox);
  }
  Deliver(std::move(outbox));
}

bool ParamResolverLocal::IsFormedWithout(GroupKey group_key,
                                         absl::string_view task_name) {
  MutexLock lock(&mu_);
  const LedGroup* const group = groups_.Find(group_key);
  return group != nullptr && group->cancellation != nullptr &&
         !group->builder.HasMemberOfTask(task_name);
}

}  // namespace tutti
