#include "resolvers/param_resolver_local.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/collective_implementation.h"
#include "framework/oldest_half.h"
#include "resolvers/instance_check.h"

namespace tutti {
namespace {

bool Serves(const ImplementationTraits& traits, const std::string& type) {
  const auto& types = traits.device_types;
  return types.empty() ||
         std::find(types.begin(), types.end(), type) != types.end();
}

absl::Status InitializeRuntimeDetails(const CollectiveRegistry& registry,
                                      CollGroupParams* group) {
  for (const auto& [name, factory] : registry.List()) {
    if (!Serves(factory->traits(), group->device_type)) continue;
    const absl::Status status =
        factory->Create()->InitializeCollectiveGroupRuntimeDetails(group);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<ParamResolverLocal> ParamResolverLocal::Create(
    Options options) {
  return std::shared_ptr<ParamResolverLocal>(
      new ParamResolverLocal(std::move(options)));
}

ParamResolverLocal::ParamResolverLocal(Options options)
    : options_(std::move(options)) {}

ParamResolverLocal::~ParamResolverLocal() {
  std::vector<GroupKey> keys;
  {
    MutexLock lock(&mu_);
    for (const auto& [key, group] : groups_) keys.push_back(key);
  }
  for (GroupKey key : keys) {
    EndGroup(key, absl::CancelledError("the resolver shut down"));
  }
}

void ParamResolverLocal::CompleteParamsAsync(
    const DeviceAttributes& device,
    std::shared_ptr<const CollectiveRequest> request,
    std::shared_ptr<Cancellation> cancellation, Done done) {
  const auto waiter = std::make_shared<Waiter>(Waiter{
      device, device.name.ToString(), std::move(request), std::move(done)});
  Outbox outbox;
  {
    MutexLock lock(&mu_);
    Arrive(waiter, &outbox);
  }
  const bool answered =
      std::any_of(outbox.answers.begin(), outbox.answers.end(),
                  [&](const auto& answer) { return answer.first == waiter; });
  Send(std::move(outbox));
  if (answered || cancellation == nullptr) return;
  cancellation->Watch([weak_self = weak_from_this(),
                       weak_waiter = std::weak_ptr<Waiter>(waiter)](
                          const absl::Status& reason) {
    const auto self = weak_self.lock();
    const auto waiter = weak_waiter.lock();
    if (self != nullptr && waiter != nullptr) self->OnCancelled(waiter, reason);
  });
}

void ParamResolverLocal::Send(Outbox outbox) {
  if (outbox.ended_group != nullptr) outbox.ended_group->Cancel(outbox.reason);
  for (auto& [waiter, answer] : outbox.answers) {
    std::move(waiter->done)(std::move(answer));
  }
}

void ParamResolverLocal::Arrive(const WaiterPtr& waiter, Outbox* outbox) {
  std::unique_ptr<Group>& entry = groups_[waiter->request->group_key];
  if (entry == nullptr) entry = std::make_unique<Group>(options_.ring_order);
  Group& group = *entry;
  if (!group.status.ok()) {
    outbox->answers.emplace_back(waiter, group.status);
    return;
  }
  absl::Status status = group.builder.Join(waiter->device, *waiter->request);
  if (status.ok() && group.params != nullptr) {
    return ArriveAtInstance(group, waiter, outbox);
  }
  group.waiting.push_back(waiter);
  if (status.ok() && group.builder.complete()) status = Complete(group, outbox);
  if (!status.ok()) Fail(group, std::move(status), outbox);
}

absl::Status ParamResolverLocal::Complete(Group& group, Outbox* outbox) {
  auto built = group.builder.Build(++last_generation_);
  if (!built.ok()) return built.status();
  const auto params = std::make_shared<CollGroupParams>(*std::move(built));
  const absl::Status status =
      InitializeRuntimeDetails(*options_.registry, params.get());
  if (!status.ok()) return status;
  const auto task = std::make_shared<CollTaskParams>();
  task->is_local.assign(params->members.size(), true);
  task->num_local = params->size();
  for (int rank = 0; rank < params->size(); ++rank) {
    group.rank_of_device[params->members[rank].device.name.ToString()] = rank;
  }
  group.params = params;
  group.task = task;
  const std::vector<WaiterPtr> waiting = std::move(group.waiting);
  group.waiting.clear();
  for (const WaiterPtr& waiter : waiting) {
    ArriveAtInstance(group, waiter, outbox);
  }
  return absl::OkStatus();
}

void ParamResolverLocal::Fail(Group& group, absl::Status status,
                              Outbox* outbox) {
  group.status = status;
  for (const WaiterPtr& waiter : group.waiting) {
    outbox->answers.emplace_back(waiter, status);
  }
  group.waiting.clear();
  for (const auto& [key, instance] : group.instances) {
    for (const WaiterPtr& waiter : instance.waiting) {
      outbox->answers.emplace_back(waiter, status);
    }
  }
  num_instances_ -= group.instances.size();
  group.instances.clear();
  if (group.params != nullptr) {
    outbox->ended_group = group.params->cancellation;
    outbox->reason = std::move(status);
  }
}

void ParamResolverLocal::ArriveAtInstance(Group& group, const WaiterPtr& waiter,
                                          Outbox* outbox) {
  const InstanceKey key = waiter->request->instance_key;
  const int rank = group.rank_of_device.at(waiter->device_name);
  if (num_instances_ >= std::max(next_sweep_, options_.max_instances)) {
    ForgetOldInstances();
  }
  const auto [entry, is_new] = group.instances.try_emplace(key);
  Instance& instance = entry->second;
  if (is_new) {
    ++num_instances_;
    instance.requests.resize(group.params->members.size());
    instance.num_served.resize(group.params->members.size());
  }
  instance.last_used = ++num_calls_;
  auto& request = instance.requests[rank];
  if (request != nullptr) {
    absl::Status status = CheckSameRequest(*request, *waiter->request);
    if (!status.ok()) {
      outbox->answers.emplace_back(waiter, std::move(status));
      return;
    }
  } else {
    request = waiter->request;
    ++instance.num_arrived;
  }
  instance.waiting.push_back(waiter);
  if (instance.num_arrived == group.params->size()) {
    CompleteWaiting(group, key, outbox);
  }
}

// All requests are there: answers all who wait.
void ParamResolverLocal::CompleteWaiting(Group& group, InstanceKey key,
                                         Outbox* outbox) {
  const auto entry = group.instances.find(key);
  Instance& instance = entry->second;
  const absl::Status status = instance.completed.empty()
                                  ? CompleteInstanceOf(group, instance)
                                  : absl::OkStatus();
  for (const WaiterPtr& waiter : instance.waiting) {
    const int rank = group.rank_of_device.at(waiter->device_name);
    ++instance.num_served[rank];
    outbox->answers.emplace_back(
        waiter, status.ok() ? Answer(instance.completed[rank]) : status);
  }
  instance.waiting.clear();
  if (!status.ok()) {
    group.instances.erase(entry);
    --num_instances_;
  }
}

absl::Status ParamResolverLocal::CompleteInstanceOf(Group& group,
                                                    Instance& instance) {
  auto completed =
      CompleteInstance(*options_.registry, *group.params, instance.requests);
  if (!completed.ok()) return completed.status();
  const auto shared =
      std::make_shared<const CollInstanceParams>(*std::move(completed));
  std::vector<std::shared_ptr<const CollectiveParams>> members;
  for (int rank = 0; rank < group.params->size(); ++rank) {
    auto params = MemberParams(group.params, shared, group.task, rank);
    if (!params.ok()) return params.status();
    members.push_back(*std::move(params));
  }
  instance.completed = std::move(members);
  return absl::OkStatus();
}

void ParamResolverLocal::OnCancelled(const WaiterPtr& waiter,
                                     const absl::Status& reason) {
  {
    MutexLock lock(&mu_);
    const auto found = groups_.find(waiter->request->group_key);
    if (found == groups_.end()) return;
    Group& group = *found->second;
    const bool waited =
        LeaveGroup(group, waiter) || LeaveInstance(group, waiter);
    if (!waited) return;
    if (group.builder.empty()) groups_.erase(found);
  }
  std::move(waiter->done)(reason);
}

bool ParamResolverLocal::LeaveGroup(Group& group, const WaiterPtr& waiter) {
  auto& waiting = group.waiting;
  const auto found = std::find(waiting.begin(), waiting.end(), waiter);
  if (found == waiting.end()) return false;
  waiting.erase(found);
  const bool waits_again =
      std::any_of(waiting.begin(), waiting.end(), [&](const WaiterPtr& other) {
        return other->device_name == waiter->device_name;
      });
  if (!waits_again) group.builder.Withdraw(waiter->device_name);
  return true;
}

bool ParamResolverLocal::LeaveInstance(Group& group, const WaiterPtr& waiter) {
  const auto entry = group.instances.find(waiter->request->instance_key);
  if (entry == group.instances.end()) return false;
  Instance& instance = entry->second;
  auto& waiting = instance.waiting;
  const auto found = std::find(waiting.begin(), waiting.end(), waiter);
  if (found == waiting.end()) return false;
  waiting.erase(found);
  const bool waits_again =
      std::any_of(waiting.begin(), waiting.end(), [&](const WaiterPtr& other) {
        return other->device_name == waiter->device_name;
      });
  if (!waits_again) {
    instance.requests[group.rank_of_device.at(waiter->device_name)] = nullptr;
    --instance.num_arrived;
  }
  if (instance.num_arrived == 0) {
    group.instances.erase(entry);
    --num_instances_;
  }
  return true;
}

std::string ParamResolverLocal::DescribeWaiting(
    const CollectiveRequest& request) {
  MutexLock lock(&mu_);
  const auto found = groups_.find(request.group_key);
  if (found == groups_.end()) return "group phase: nobody had joined";
  const Group& group = *found->second;
  if (group.params == nullptr) {
    return absl::StrCat("group phase: ", group.builder.Describe());
  }
  const auto instance = group.instances.find(request.instance_key);
  if (instance == group.instances.end()) return "instance phase";
  std::vector<std::string> absent;
  for (int rank = 0; rank < group.params->size(); ++rank) {
    if (instance->second.requests[rank] != nullptr) continue;
    absent.push_back(
        absl::StrCat("rank ", rank, " (",
                     group.params->members[rank].device.name.ToString(), ")"));
  }
  return absl::StrCat("instance phase: ", absl::StrJoin(absent, ", "),
                      " had not arrived");
}

void ParamResolverLocal::EndGroup(GroupKey group_key, absl::Status reason) {
  Outbox outbox;
  {
    MutexLock lock(&mu_);
    const auto found = groups_.find(group_key);
    if (found == groups_.end()) return;
    Fail(*found->second, std::move(reason), &outbox);
    groups_.erase(found);
  }
  Send(std::move(outbox));
}

// Forgets the less recently used half of the instances that nobody waits for
// and that all members asked for equally often.
void ParamResolverLocal::ForgetOldInstances() {
  using Place = std::pair<Group*, InstanceKey>;
  std::vector<std::pair<uint64_t, Place>> idle;
  for (const auto& [group_key, group] : groups_) {
    for (const auto& [key, instance] : group->instances) {
      const auto& served = instance.num_served;
      const bool is_even =
          std::adjacent_find(served.begin(), served.end(),
                             std::not_equal_to<>()) == served.end();
      if (!instance.completed.empty() && is_even) {
        idle.push_back({instance.last_used, {group.get(), key}});
      }
    }
  }
  const size_t num_busy = num_instances_ - idle.size();
  for (const auto& [group, key] : OldestHalf(std::move(idle))) {
    group->instances.erase(key);
    --num_instances_;
  }
  next_sweep_ = options_.max_instances + 2 * num_busy;
}

size_t ParamResolverLocal::num_groups() {
  MutexLock lock(&mu_);
  return groups_.size();
}

uint64_t ParamResolverLocal::num_calls() {
  MutexLock lock(&mu_);
  return num_calls_;
}

size_t ParamResolverLocal::num_instances() {
  MutexLock lock(&mu_);
  return num_instances_;
}

}  // namespace tutti
