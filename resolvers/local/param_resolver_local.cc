#include "resolvers/local/param_resolver_local.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/rank_list.h"
#include "framework/choice/device_needs.h"
#include "framework/collective/request_fields.h"
#include "resolvers/local/instance_check.h"
#include "resolvers/local/task_members.h"
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
    const absl::Status status =
        factory->Create()->InitializeCollectiveGroupRuntimeDetails(group);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

bool AreEqual(const std::vector<uint64_t>& numbers) {
  return std::adjacent_find(numbers.begin(), numbers.end(),
                            std::not_equal_to<>()) == numbers.end();
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
    : options_(std::move(options)), next_sweep_(options_.max_entries) {}

ParamResolverLocal::~ParamResolverLocal() {
  EndAll(absl::CancelledError("the resolver shut down"));
}

void ParamResolverLocal::EndAll(const absl::Status& reason) {
  std::vector<GroupKey> keys;
  {
    MutexLock lock(&mu_);
    for (const auto& [key, group] : groups_) keys.push_back(key);
  }
  for (GroupKey key : keys) EndGroup(key, reason);
}

void ParamResolverLocal::CompleteParamsAsync(
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
                  .asks_once = member.asks_once,
                  .is_remote = member.is_remote});
  call->device_name = call->device.name.ToString();
  Outbox outbox;
  {
    MutexLock lock(&mu_);
    Arrive(call, &outbox);
  }
  const bool answered =
      std::any_of(outbox.answers.begin(), outbox.answers.end(),
                  [&](const auto& answer) { return answer.first == call; });
  if (!answered && member.cancellation != nullptr) {
    member.cancellation->Watch([weak_self = weak_from_this(),
                                weak_call = std::weak_ptr<WaitingCall>(call)](
                                   const absl::Status& reason) {
      const auto self = weak_self.lock();
      const auto call = weak_call.lock();
      if (self != nullptr && call != nullptr) self->OnCancelled(call, reason);
    });
  }
  Deliver(std::move(outbox));
}

void ParamResolverLocal::Deliver(Outbox outbox) {
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

absl::Status ParamResolverLocal::CheckEndedGeneration(
    const WaitingCall& call) const {
  const uint64_t limit = last_generation_ + 2 * kMaxGenerationsAhead;
  if (call.ended_generation <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("ended_generation of group ", call.request->group_key,
                   ", as ", call.device_name, " says, is ",
                   call.ended_generation, "; wanted at most ", limit));
}

void ParamResolverLocal::Arrive(const WaitingCallPtr& call, Outbox* outbox) {
  const bool is_alone = options_.task_name.empty();
  if (absl::Status status = CheckEndedGeneration(*call); !status.ok()) {
    outbox->answers.emplace_back(call, LeaderAnswer{std::move(status)});
    return;
  }
  LeaveEndedGeneration(*call, outbox);
  const auto found = FindOrAddGroup(*call, outbox);
  if (!found.ok()) {
    outbox->answers.emplace_back(
        call, LeaderAnswer{found.status(), call->living_generation});
    return;
  }
  const GroupPtr& group = *found;
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
  Fail(*group, std::move(status), outbox);
}

// Drops a generation that has ended, as the member may know before this
// process.
void ParamResolverLocal::LeaveEndedGeneration(const WaitingCall& call,
                                              Outbox* outbox) {
  last_generation_ = std::max(last_generation_, call.ended_generation);
  const GroupKey key = call.request->group_key;
  const auto found = groups_.find(key);
  if (found == groups_.end()) return;
  Group& group = *found->second;
  if (call.ended_generation < group.generation) return;
  if (group.is_forming()) {
    group.generation = ++last_generation_;  // No process knows the old one.
    return;
  }
  DropGroup(key,
            absl::AbortedError(
                absl::StrCat("generation ", group.generation, " of group ", key,
                             " has ended, as ", call.device_name, " knows")),
            outbox);
}

absl::StatusOr<ParamResolverLocal::GroupPtr> ParamResolverLocal::FindOrAddGroup(
    const WaitingCall& call, Outbox* outbox) {
  const GroupKey key = call.request->group_key;
  // Refuses a late call from before the loss of a task too: such a call must
  // not spoil the group that forms without the lost tasks.
  if (call.living_generation == 0 &&
      call.request->group_size > num_devices_left_) {
    return reason_for_no_more_;
  }
  const auto found = groups_.find(key);
  const bool is_led = found != groups_.end() &&
                      (call.living_generation == 0 ||
                       call.living_generation == found->second->generation);
  if (is_led) return found->second;
  if (call.living_generation != 0) {
    return absl::AbortedError(
        absl::StrCat("generation ", call.living_generation, " of group ", key,
                     ", which ", call.device_name, " is in, has ended"));
  }
  absl::Status room = CheckRoom(call);
  if (!room.ok()) return room;
  if (call.is_remote && groups_.size() >= options_.max_groups) {
    return absl::ResourceExhaustedError(
        absl::StrCat("group ", key, ", which ", call.device_name,
                     " asks for, would be more than the ", options_.max_groups,
                     " that the leader keeps"));
  }
  auto group = std::make_shared<Group>(++last_generation_);
  groups_.emplace(key, group);
  ++num_unsettled_;
  SetNew(*group, outbox);
  return group;
}

void ParamResolverLocal::SetNew(Group& group, Outbox* outbox) {
  if (std::exchange(group.is_new, true)) return;
  if (num_new_++ == 0) outbox->new_groups_changed = true;
}

void ParamResolverLocal::SetOld(Group& group, Outbox* outbox) {
  if (!std::exchange(group.is_new, false)) return;
  if (--num_new_ == 0) outbox->new_groups_changed = true;
}

absl::Status ParamResolverLocal::CheckRoom(const WaitingCall& call) const {
  if (!call.is_remote || num_unsettled_ < options_.max_unsettled) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      InstanceLabel(*call.request), ", which ", call.device_name,
      " asks for: the leader waits for the other members of ", num_unsettled_,
      " groups and instances; wanted fewer than ", options_.max_unsettled));
}

absl::Status ParamResolverLocal::BeginForming(const GroupPtr& group,
                                              Outbox* outbox) {
  auto built = group->builder.Build(group->generation);
  if (!built.ok()) return built.status();
  auto params = std::make_shared<CollGroupParams>(*std::move(built));
  group->cancellation = params->cancellation;
  outbox->jobs.emplace_back(
      [this, group, params = std::move(params)](Outbox* next) {
        FormGroup(group, params, next);
      });
  return absl::OkStatus();
}

// Completes a group. Meanwhile calls may come and leave, and the group may end.
void ParamResolverLocal::FormGroup(const GroupPtr& group,
                                   std::shared_ptr<CollGroupParams> params,
                                   Outbox* outbox) {
  absl::Status status =
      InitializeRuntimeDetails(*options_.policy.registry, params.get());
  auto task = std::make_shared<const CollTaskParams>(
      MembersOfTask(*params, options_.task_name));
  MutexLock lock(&mu_);
  if (!group->status.ok()) return;
  if (!status.ok()) return Fail(*group, std::move(status), outbox);
  --num_unsettled_;
  for (int rank = 0; rank < params->size(); ++rank) {
    group->rank_of_device[params->members[rank].device.name.ToString()] = rank;
  }
  group->params = std::move(params);
  group->task = std::move(task);
  for (const WaitingCallPtr& call : group->waiting.TakeAll()) {
    ArriveAtInstance(group, call, outbox);
  }
}

void ParamResolverLocal::Fail(Group& group, absl::Status status,
                              Outbox* outbox) {
  SetOld(group, outbox);
  if (group.status.ok() && group.params == nullptr) --num_unsettled_;
  group.status = status;
  const auto answer = [&](WaitingCalls& waiting) {
    for (WaitingCallPtr& call : waiting.TakeAll()) {
      outbox->answers.emplace_back(std::move(call),
                                   LeaderAnswer{status, group.generation});
    }
  };
  answer(group.waiting);
  for (auto& [key, instance] : group.instances) {
    answer(instance->waiting);
    CountOut(*instance);
    outbox->dropped.push_back(std::move(instance));
  }
  group.instances.clear();
  if (group.cancellation != nullptr) {
    outbox->ended_groups.emplace_back(group.cancellation, std::move(status));
  }
}

void ParamResolverLocal::DropGroup(GroupKey key, absl::Status reason,
                                   Outbox* outbox) {
  const auto found = groups_.find(key);
  GroupPtr group = std::move(found->second);
  groups_.erase(found);
  Fail(*group, std::move(reason), outbox);
  outbox->dropped.push_back(std::move(group));
}

void ParamResolverLocal::CountOut(const Instance& instance) {
  num_entries_ -= instance.num_entries;
  if (instance.completed.empty()) --num_unsettled_;
}

void ParamResolverLocal::ArriveAtInstance(const GroupPtr& group,
                                          const WaitingCallPtr& call,
                                          Outbox* outbox) {
  const InstanceKey key = call->request->instance_key;
  const int rank = group->rank_of_device.at(call->device_name);
  const auto found = FindOrAddInstance(*group, *call, outbox);
  if (!found.ok()) {
    outbox->answers.emplace_back(call, LeaderAnswer{found.status()});
    return;
  }
  const InstancePtr& instance = *found;
  instance->last_used = ++num_calls_;
  auto& request = instance->requests[rank];
  const bool is_new = request == nullptr;
  if (is_new) {
    request = call->request;
    ++instance->num_arrived;
  } else if (absl::Status status = CheckSameRequest(*request, *call->request);
             !status.ok()) {
    outbox->answers.emplace_back(call, LeaderAnswer{std::move(status)});
    return;
  }
  if (is_new || !call->asks_once) ++instance->num_calls[rank];
  if (!instance->completed.empty()) {
    outbox->answers.emplace_back(call, LeaderAnswer{instance->completed[rank]});
    return;
  }
  instance->waiting.Add(call);
  if (call->living_generation != group->generation) SetNew(*group, outbox);
  if (!is_new || !instance->all_arrived()) return;
  outbox->jobs.emplace_back(
      [this, group, key, arrived = instance](Outbox* next) {
        SettleInstance(group, key, arrived, next);
      });
}

absl::StatusOr<ParamResolverLocal::InstancePtr>
ParamResolverLocal::FindOrAddInstance(Group& group, const WaitingCall& call,
                                      Outbox* outbox) {
  const InstanceKey key = call.request->instance_key;
  const auto found = group.instances.find(key);
  if (found != group.instances.end()) return found->second;
  absl::Status room = CheckRoom(call);
  if (!room.ok()) return room;
  if (num_entries_ >= next_sweep_) ForgetOldInstances(outbox);
  const size_t num_members = group.params->members.size();
  if (call.is_remote && num_entries_ + num_members > 8 * options_.max_entries) {
    return absl::ResourceExhaustedError(
        absl::StrCat(InstanceLabel(*call.request), ", which ", call.device_name,
                     " asks for: the leader keeps ", num_entries_,
                     " entries of instances already; wanted are at most ",
                     8 * options_.max_entries));
  }
  const auto instance = std::make_shared<Instance>();
  instance->requests.resize(num_members);
  instance->num_calls.resize(num_members);
  instance->num_entries = num_members;
  num_entries_ += num_members;
  ++num_unsettled_;
  group.instances.emplace(key, instance);
  return instance;
}

void ParamResolverLocal::DropInstance(Group& group, InstanceKey key,
                                      Outbox* outbox) {
  const auto found = group.instances.find(key);
  CountOut(*found->second);
  outbox->dropped.push_back(std::move(found->second));
  group.instances.erase(found);
}

// Completes an instance whose requests have all arrived. Meanwhile further
// calls may come and leave, and the group may end.
void ParamResolverLocal::SettleInstance(const GroupPtr& group, InstanceKey key,
                                        const InstancePtr& instance,
                                        Outbox* outbox) {
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
  if (!completed.ok()) return DropInstance(*group, key, outbox);
  instance->completed = *std::move(completed);
  SetOld(*group, outbox);
  --num_unsettled_;
  const size_t num_rows = instance->completed[0]->instance->rows.size();
  instance->num_entries += num_rows;
  num_entries_ += num_rows;
}

void ParamResolverLocal::OnCancelled(const WaitingCallPtr& call,
                                     const absl::Status& reason) {
  Outbox outbox;
  {
    MutexLock lock(&mu_);
    const auto found = groups_.find(call->request->group_key);
    if (found == groups_.end()) return;
    Group& group = *found->second;
    if (!LeaveGroup(group, *call) && !LeaveInstance(group, *call, &outbox)) {
      return;
    }
    outbox.answers.emplace_back(call, LeaderAnswer{reason});
    if (group.builder.empty()) DropGroup(found->first, reason, &outbox);
  }
  Deliver(std::move(outbox));
}

bool ParamResolverLocal::LeaveGroup(Group& group, const WaitingCall& call) {
  if (!group.waiting.Remove(call)) return false;
  const bool is_complete = group.cancellation != nullptr;
  if (!is_complete && !group.waiting.HasCallOf(call.device_name)) {
    group.builder.Withdraw(call.device_name);
  }
  return true;
}

bool ParamResolverLocal::LeaveInstance(Group& group, const WaitingCall& call,
                                       Outbox* outbox) {
  const InstanceKey key = call.request->instance_key;
  const auto found = group.instances.find(key);
  if (found == group.instances.end()) return false;
  Instance& instance = *found->second;
  if (!instance.waiting.Remove(call)) return false;
  if (instance.all_arrived()) return true;  // The instance is being settled.
  const int rank = group.rank_of_device.at(call.device_name);
  const bool was_last = !instance.waiting.HasCallOf(call.device_name);
  if (was_last || !call.asks_once) --instance.num_calls[rank];
  if (was_last) {
    outbox->dropped.push_back(std::move(instance.requests[rank]));
    --instance.num_arrived;
  }
  if (instance.num_arrived == 0) DropInstance(group, key, outbox);
  return true;
}

std::string ParamResolverLocal::DescribeWaiting(
    const CollectiveRequest& request) {
  MutexLock lock(&mu_);
  const auto found = groups_.find(request.group_key);
  if (found == groups_.end() || !found->second->status.ok()) return "";
  const Group& group = *found->second;
  if (group.cancellation == nullptr) {
    return absl::StrCat("group phase: ", group.builder.Describe());
  }
  const auto entry = group.instances.find(request.instance_key);
  if (entry == group.instances.end() || entry->second->all_arrived()) return "";
  std::vector<int> absent;
  for (int rank = 0; rank < group.params->size(); ++rank) {
    if (entry->second->requests[rank] == nullptr) absent.push_back(rank);
  }
  const auto name = [&](size_t i) {
    return absl::StrCat("rank ", absent[i], " (",
                        group.params->members[absent[i]].device.name.ToString(),
                        ")");
  };
  return absl::StrCat("instance phase: ", ShortList(absent.size(), name),
                      " had not arrived");
}

void ParamResolverLocal::EndGroup(GroupKey group_key, absl::Status reason) {
  EndGeneration(group_key, kAnyGeneration, std::move(reason));
}

void ParamResolverLocal::EndGeneration(GroupKey group_key, uint64_t generation,
                                       absl::Status reason) {
  if (reason.ok()) reason = absl::CancelledError("the group was ended");
  Outbox outbox;
  {
    MutexLock lock(&mu_);
    const auto found = groups_.find(group_key);
    if (found == groups_.end() || found->second->generation > generation) {
      return;
    }
    // Message of a former leader: no process knows the number of a forming
    // group.
    if (generation != kAnyGeneration && found->second->is_forming()) {
      last_generation_ = std::max(last_generation_, generation);
      found->second->generation = ++last_generation_;
      return;
    }
    DropGroup(group_key, std::move(reason), &outbox);
  }
  Deliver(std::move(outbox));
}

void ParamResolverLocal::EndAwaited(GroupKey group_key,
                                    absl::string_view task_name,
                                    absl::Status reason) {
  if (reason.ok()) reason = absl::CancelledError("the group was ended");
  Outbox outbox;
  {
    MutexLock lock(&mu_);
    const auto found = groups_.find(group_key);
    if (found == groups_.end()) return;
    // If all members have come, the task may not have heard so.
    const Group& group = *found->second;
    if (!IsAwaitedBy(group, task_name) && !IsFormedWith(group, task_name)) {
      return;
    }
    if (const auto& formed = found->second->params; formed != nullptr) {
      outbox.failed_groups.emplace_back(formed, reason);
    }
    DropGroup(group_key, std::move(reason), &outbox);
  }
  Deliver(std::move(outbox));
}

bool ParamResolverLocal::IsAwaitedBy(const Group& group,
                                     absl::string_view task_name) const {
  return group.waiting.HasCallOfTask(task_name) ||
         std::any_of(group.instances.begin(), group.instances.end(),
                     [&](const auto& entry) {
                       return entry.second->waiting.HasCallOfTask(task_name);
                     });
}

void ParamResolverLocal::EndTask(absl::string_view task_name,
                                 uint64_t incarnation,
                                 const absl::Status& reason) {
  Outbox outbox;
  {
    MutexLock lock(&mu_);
    std::vector<GroupKey> ended;
    for (const auto& [key, group] : groups_) {
      if (IsFormedWith(*group, task_name, incarnation)) {
        ended.push_back(key);
        continue;
      }
      for (auto& call :
           group->waiting.TakeCallsOfTask(task_name, incarnation)) {
        group->builder.Withdraw(call->device_name);
        outbox.answers.emplace_back(std::move(call), LeaderAnswer{reason});
      }
      if (group->builder.empty() && group->status.ok()) ended.push_back(key);
    }
    for (GroupKey key : ended) DropGroup(key, reason, &outbox);
  }
  Deliver(std::move(outbox));
}

void ParamResolverLocal::SetDevicesLeft(int64_t num_devices,
                                        absl::Status reason) {
  Outbox outbox;
  {
    MutexLock lock(&mu_);
    num_devices_left_ = num_devices;
    reason_for_no_more_ = std::move(reason);
    std::vector<GroupKey> ended;
    for (const auto& [key, group] : groups_) {
      if (group->is_forming() && group->builder.size() > num_devices_left_) {
        ended.push_back(key);
      }
    }
    for (GroupKey key : ended) DropGroup(key, reason_for_no_more_, &outbox);
  }
  Deliver(std::move(outbox));
}

// Returns true if all members have come, and at least one is of the task.
bool ParamResolverLocal::IsFormedWith(const Group& group,
                                      absl::string_view task_name,
                                      uint64_t incarnation) const {
  if (!group.status.ok() || group.cancellation == nullptr) return false;
  return group.builder.HasMemberOfTask(task_name, incarnation);
}

bool ParamResolverLocal::IsFormedWithout(GroupKey group_key,
                                         absl::string_view task_name) {
  MutexLock lock(&mu_);
  const auto found = groups_.find(group_key);
  return found != groups_.end() && found->second->cancellation != nullptr &&
         !found->second->builder.HasMemberOfTask(task_name);
}

bool ParamResolverLocal::has_new_groups() {
  MutexLock lock(&mu_);
  return num_new_ > 0;
}

bool ParamResolverLocal::HasGroup(GroupKey group_key) {
  MutexLock lock(&mu_);
  return groups_.contains(group_key);
}

uint64_t ParamResolverLocal::last_generation() {
  MutexLock lock(&mu_);
  return last_generation_;
}

// Keeps the most recently used idle instances. Idle: no call waits for it, and
// all members requested it equally often.
void ParamResolverLocal::ForgetOldInstances(Outbox* outbox) {
  struct Idle {
    Group* group;
    InstanceKey key;
    uint64_t last_used;
    size_t num_entries;
  };
  std::vector<Idle> idle;
  for (const auto& [group_key, group] : groups_) {
    for (const auto& [key, instance] : group->instances) {
      if (instance->completed.empty() || !AreEqual(instance->num_calls)) {
        continue;
      }
      idle.push_back(
          {group.get(), key, instance->last_used, instance->num_entries});
    }
  }
  std::sort(idle.begin(), idle.end(), [](const Idle& a, const Idle& b) {
    return a.last_used > b.last_used;
  });
  size_t num_newer_entries = 0;
  for (const Idle& instance : idle) {
    if (num_newer_entries >= options_.max_entries / 2) {
      DropInstance(*instance.group, instance.key, outbox);
    }
    num_newer_entries += instance.num_entries;
  }
  next_sweep_ = std::max(options_.max_entries, 2 * num_entries_);
}

size_t ParamResolverLocal::num_groups() {
  MutexLock lock(&mu_);
  return groups_.size();
}

size_t ParamResolverLocal::num_instances() {
  MutexLock lock(&mu_);
  size_t total = 0;
  for (const auto& [key, group] : groups_) total += group->instances.size();
  return total;
}

size_t ParamResolverLocal::num_entries() {
  MutexLock lock(&mu_);
  return num_entries_;
}

uint64_t ParamResolverLocal::num_calls() {
  MutexLock lock(&mu_);
  return num_calls_;
}

}  // namespace tutti
