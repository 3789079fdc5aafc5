#include "framework/executor/execution_table.h"

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/peer/message_key.h"

namespace tutti {
namespace {

// Executions of a table are TableExecutions.
TableExecution& OfTable(Execution& execution) {
  return static_cast<TableExecution&>(execution);
}
const TableExecution& OfTable(const Execution& execution) {
  return static_cast<const TableExecution&>(execution);
}

// Executions kept per instance to use again. Two: a fast member is in the next
// execution before all have left the last one.
constexpr size_t kMaxSpare = 2;

}  // namespace

ExecutionTable::ExecutionTable(int64_t step_id, size_t num_local_devices,
                               size_t max_entries, IsLocal is_local,
                               uint64_t first_number)
    : step_id_(step_id),
      is_local_(std::move(is_local)),
      entries_(num_local_devices, max_entries, first_number) {}

ExecutionTable::~ExecutionTable() = default;

ExecutionTable::Joined ExecutionTable::Join(const Device* device,
                                            const CollectiveRequest& request,
                                            std::optional<uint64_t> number,
                                            HoldOwner hold_owner) {
  // Check first: a refused call leaves nothing behind. ALREADY_EXISTS below
  // comes only to a member that was here before.
  Joined joined;
  if (number.has_value()) {
    const InstanceId id{request.group_key, request.instance_key};
    joined.status = TableMember::CheckNumber(device, id, *number);
    if (!joined.status.ok()) return joined;
  }
  std::vector<std::shared_ptr<TableExecution>> dropped;
  MutexLock lock(&mu_);
  TableMember* const found = FindOrAddMember(device, request, &joined);
  if (found == nullptr) return joined;
  TableMember& member = *found;
  if (member.LivingSettled() == nullptr && !number.has_value()) {
    entries_.GoOnWithOthers(member);
  }
  joined.execution = EnterNext(member, number, hold_owner, &joined.status);
  dropped.swap(member.dropped);
  joined.settled = member.settled.get();
  if (member.announcement != nullptr) {
    joined.announcement = TakeAnnouncement(member, joined);
  }
  return joined;
}

// Returns the announcement of the execution that was just joined, or null.
std::shared_ptr<Announcement> ExecutionTable::TakeAnnouncement(
    TableMember& member, const Joined& joined) {
  auto announcement = std::move(member.announcement);
  const bool is_of_it =
      joined.execution != nullptr &&
      announcement->key.exec.execution == joined.execution->number;
  return is_of_it ? std::move(announcement) : nullptr;
}

std::unique_ptr<TableEntries::Forgotten> ExecutionTable::Announce(
    const Device* device, const CollectiveRequest& request,
    const CollGroupParams& group, std::shared_ptr<Announcement> announcement,
    absl::Status* status) {
  Joined joined;
  MutexLock lock(&mu_);
  TableMember& member = *FindOrAddMember(device, request, &joined);
  if (member.LivingSettled() == nullptr) entries_.GoOnWithOthers(member);
  const TableInstance* const instance = entries_.FindInstance(member.id);
  if (instance != nullptr && instance->spans_tasks) {
    *status = CheckGeneration(member, group);
    if (!status->ok()) return std::move(joined.forgotten);
  }
  announcement->key.exec.execution = member.num_calls;
  member.announcement = std::move(announcement);
  return std::move(joined.forgotten);
}

ExecutionTable::Joined ExecutionTable::JoinAnnounced(
    const Device* device, const CollectiveRequest& request,
    const Announcement& announcement, HoldOwner hold_owner) {
  Joined joined;
  std::vector<std::shared_ptr<TableExecution>> dropped;
  MutexLock lock(&mu_);
  TableMember* const member =
      entries_.FindMember(device, {request.group_key, request.instance_key});
  if (member == nullptr || member->announcement.get() != &announcement ||
      member->num_calls != announcement.key.exec.execution) {
    return joined;
  }
  member->announcement = nullptr;
  joined.execution =
      EnterNext(*member, std::nullopt, hold_owner, &joined.status);
  dropped.swap(member->dropped);
  joined.settled = member->settled.get();
  return joined;
}

Execution* ExecutionTable::JoinNext(TableMember& member, HoldOwner hold_owner,
                                    absl::Status* status) {
  std::vector<std::shared_ptr<TableExecution>> dropped;
  MutexLock lock(&mu_);
  TableExecution* const execution =
      EnterNext(member, std::nullopt, hold_owner, status);
  dropped.swap(member.dropped);
  return execution;
}

ExecutionTable::Joined ExecutionTable::JoinPreparation(
    const Device* device, const CollectiveRequest& request,
    HoldOwner hold_owner) {
  Joined joined;
  std::vector<std::shared_ptr<TableExecution>> dropped;
  MutexLock lock(&mu_);
  TableMember* const found = FindOrAddMember(device, request, &joined);
  if (found == nullptr) return joined;
  TableMember& member = *found;
  const uint64_t number = kPreparations + member.num_preparations++;
  joined.execution = &Enter(member, number, hold_owner, &joined.status);
  dropped.swap(member.dropped);
  joined.settled = member.settled.get();
  return joined;
}

TableMember& ExecutionTable::Hold(const Device* device, InstanceId id) {
  MutexLock lock(&mu_);
  TableMember& member = entries_.MemberOf(device, id);
  ++member.instance->num_held;
  return member;
}

void ExecutionTable::Release(TableMember& member) {
  MutexLock lock(&mu_);
  --member.instance->num_held;
}

// Returns null and sets the status if the device is not local.
TableMember* ExecutionTable::FindOrAddMember(const Device* device,
                                             const CollectiveRequest& request,
                                             Joined* joined) {
  TableMember* const known =
      entries_.FindMember(device, {request.group_key, request.instance_key});
  if (known != nullptr) return known;
  if (!is_local_(device)) {
    joined->status = absl::InvalidArgumentError(
        absl::StrCat(device->full_name(),
                     " is not one of the devices of this executor's manager"));
    return nullptr;
  }
  joined->forgotten = entries_.MakeRoom();
  return &entries_.AddMember(device, request);
}

TableExecution* ExecutionTable::EnterNext(TableMember& member,
                                          std::optional<uint64_t> number,
                                          HoldOwner hold_owner,
                                          absl::Status* status) {
  if (!number.has_value() && !member.gives_numbers) {
    return &Enter(member, member.num_calls++, hold_owner, status);
  }
  absl::Status wrong;
  const std::optional<uint64_t> taken = member.TakeNumber(number, &wrong);
  TableExecution* execution = nullptr;
  if (taken.has_value()) {
    ++member.num_calls;
    execution = &Enter(member, *taken, hold_owner, status);
  }
  if (!wrong.ok()) *status = std::move(wrong);
  return execution;
}

// Puts the member into the execution, even where it cannot run there.
TableExecution& ExecutionTable::Enter(TableMember& member, uint64_t number,
                                      HoldOwner hold_owner,
                                      absl::Status* status) {
  const SettledFacts* const living = member.LivingSettled();
  TableInstance& instance = *member.instance;
  if (instance.latest == nullptr || instance.latest->number != number) {
    std::shared_ptr<TableExecution>& entry = instance.executions[number];
    if (entry == nullptr) entry = MakeExecution(member, number, living);
    instance.latest = entry.get();
  }
  TableExecution& execution = *instance.latest;
  execution.joined_.push_back(member.device);
  if (execution.owner_ == nullptr) execution.owner_ = hold_owner();
  instance.last_used = ++num_joins_;
  if (living != nullptr) *status = SetKey(execution, *living);
  return execution;
}

// Uses an execution again only if it ran in the same group, and that group
// lives. Thus state shared by its members is shared by their implementation
// too.
std::shared_ptr<TableExecution> ExecutionTable::MakeExecution(
    TableMember& member, uint64_t number, const SettledFacts* living) {
  std::vector<std::shared_ptr<TableExecution>>& spare = member.instance->spare;
  while (!spare.empty()) {
    std::shared_ptr<TableExecution> execution = std::move(spare.back());
    spare.pop_back();
    if (execution.use_count() > 1 || living == nullptr ||
        execution->group_ != living->params->group) {
      // Unusable: another thread may still end it, or its group differs.
      member.dropped.push_back(std::move(execution));
      continue;
    }
    // Makes the writes of the last holder visible.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (execution->cancellation.cancelled()) {
      member.dropped.push_back(std::move(execution));
      continue;
    }
    execution->number = number;
    execution->num_launched.store(0, std::memory_order_relaxed);
    execution->joined_.resize(0);  // Unlike clear(), keeps its memory.
    execution->num_left_ = 0;
    execution->over_ = false;
    execution->key_.reset();
    return execution;
  }
  auto execution = std::make_shared<TableExecution>(member.id, number);
  execution->instance_ = member.instance;
  return execution;
}

absl::Status ExecutionTable::Settle(
    const Device* device, Execution& settling,
    std::shared_ptr<const SettledFacts> settled) {
  TableExecution& execution = OfTable(settling);
  // Freed without the lock.
  std::vector<std::shared_ptr<TableExecution>> others;
  MutexLock lock(&mu_);
  execution.resolved_ = true;
  TableMember& member = entries_.MemberOf(device, execution.id);
  TableInstance& instance = *member.instance;
  const CollGroupParams& group = *settled->params->group;
  const auto num_local = static_cast<size_t>(settled->params->task->num_local);
  const bool spans_tasks = settled->spans_tasks;
  absl::Status status;
  if (spans_tasks || instance.spans_tasks) {
    status = CheckGeneration(member, group);
  }
  status.Update(SetKey(execution, *settled));
  if (!status.ok()) return status;
  // Calls that began before the first was settled bring equal facts.
  const bool is_new = member.settled == nullptr ||
                      member.settled->params->group != settled->params->group;
  if (is_new) std::swap(member.settled, settled);
  if (is_new && settled != nullptr) {
    for (const auto& other : instance.executions.Values()) {
      if (other.get() == &execution || !other->HasMembers()) continue;
      other->outdated_.push_back(settled);
    }
  }
  instance.spans_tasks = spans_tasks;
  if (num_local != instance.num_expected) {
    // Calls with another group size may have come before this one.
    instance.num_expected = num_local;
    others = instance.executions.Values();
    for (const auto& other : others) {
      EndIfAllLeft(instance, *other);
    }
  }
  // From now on, none ends without this member.
  entries_.GoOnWithOthers(member);
  return absl::OkStatus();
}

// Refuses a member whose count may differ from the counts of other tasks. Those
// tasks may have called the instance less often, or be new. Their members and
// this one would wait for each other in executions of different numbers.
absl::Status ExecutionTable::CheckGeneration(const TableMember& member,
                                             const CollGroupParams& group) {
  const bool is_new = member.settled == nullptr;
  const bool is_counted_alike =
      is_new ? !member.went_on_with_others
             : member.settled->generation == group.generation;
  if (is_counted_alike || member.gives_numbers) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      member.num_calls < kMessages
          ? absl::StrCat("instance ", member.id.instance_key)
          : absl::StrCat("the message of ",
                         ToString(PathOf(member.id.instance_key))),
      " of group ", group.key,
      is_new ? " was called by others before"
             : absl::StrCat(" ran in generation ", member.settled->generation,
                            " of the group before"),
      ": in generation ", group.generation, " it needs another step than ",
      step_id_, ", in which not all members have called it equally often"));
}

absl::Status ExecutionTable::SetKey(TableExecution& execution,
                                    const SettledFacts& settled) {
  const ExecKey key{settled.generation, step_id_, execution.id.group_key,
                    execution.id.instance_key, execution.number};
  if (!execution.key_.has_value()) {
    execution.key_ = key;
    if (execution.group_ != settled.params->group) {
      execution.group_ = settled.params->group;
    }
  }
  if (*execution.key_ == key) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(
      "group ", key.group, " was formed again while execution ", key.execution,
      " of instance ", key.instance, " began: some of its members run it in ",
      "generation ", execution.key_->generation, ", others in generation ",
      key.generation));
}

ExecutionTable::Left ExecutionTable::Leave(Execution& leaving_execution,
                                           const Leaving& leaving) {
  TableExecution& execution = OfTable(leaving_execution);
  Left left;
  MutexLock lock(&mu_);
  execution.num_left_ += leaving.num_members;
  left.execution = EndIfAllLeft(*execution.instance_, execution);
  if (!execution.over_ && leaving.num_unlaunched > 0) {
    execution.num_launched.fetch_add(leaving.num_unlaunched,
                                     std::memory_order_relaxed);
  }
  if (execution.cancellation.cancelled()) {
    left.to_forget = execution.KeyToForget();
  }
  if (execution.num_left_ == execution.joined_.size()) {
    left.owner = std::move(execution.owner_);
  } else if (leaving.num_unlaunched > 0) {
    left.owner = execution.owner_;  // Needed to report the launch afterwards.
  }
  return left;
}

std::shared_ptr<const void> ExecutionTable::EndIfAllLeft(
    TableInstance& instance, TableExecution& execution) {
  if (execution.num_left_ < execution.joined_.size()) return nullptr;
  // Members need not prepare equally often: a later one misses nothing but a
  // failure.
  const bool may_end_early =
      execution.number >= kPreparations && !execution.cancellation.cancelled();
  if (execution.num_left_ < instance.num_expected && !may_end_early) {
    return nullptr;
  }
  execution.over_ = true;
  if (instance.latest == &execution) instance.latest = nullptr;
  instance.ended.Insert(execution.number);
  std::shared_ptr<TableExecution> ended =
      instance.executions.Take(execution.number);
  if (ended != nullptr && !ended->resolved_ && ended->outdated_.empty() &&
      instance.spare.size() < kMaxSpare) {
    instance.spare.push_back(std::move(ended));
  }
  return ended;
}

std::optional<ExecKey> ExecutionTable::BeginCancel(Execution& cancelled) {
  TableExecution& execution = OfTable(cancelled);
  MutexLock lock(&mu_);
  if (execution.over_) return std::nullopt;
  ++execution.num_cancelling_;
  return execution.key_.value_or(ExecKey{
      .step = step_id_,
      .group = execution.id.group_key,
      .instance = execution.id.instance_key,
      .execution = execution.number,
  });
}

std::optional<ExecKey> ExecutionTable::EndCancel(Execution& cancelled) {
  TableExecution& execution = OfTable(cancelled);
  MutexLock lock(&mu_);
  --execution.num_cancelling_;
  return execution.KeyToForget();
}

bool ExecutionTable::HasLaunched(InstanceId id, uint64_t number) {
  MutexLock lock(&mu_);
  const TableInstance* const instance = entries_.FindInstance(id);
  if (instance == nullptr) return false;
  if (instance->ended.Contains(number)) return true;
  const auto* const execution = instance->executions.Find(number);
  return execution != nullptr && IsLaunched(*instance, **execution);
}

// Returns true if all have launched. A failed execution counts only the members
// that joined: a missing member does not launch it later.
bool ExecutionTable::IsLaunched(const TableInstance& instance,
                                const TableExecution& execution) {
  const size_t num_launched = execution.num_launched;
  return num_launched >= instance.num_expected ||
         (execution.cancellation.cancelled() &&
          num_launched >= execution.joined_.size());
}

std::vector<std::string> ExecutionTable::JoinedNames(
    const Execution& execution) {
  MutexLock lock(&mu_);
  std::vector<std::string> names;
  for (const Device* device : OfTable(execution).joined_) {
    names.push_back(entries_.NameOf(device));
  }
  return names;
}

std::shared_ptr<Execution> ExecutionTable::Find(const ExecKey& key) {
  MutexLock lock(&mu_);
  const TableInstance* const instance =
      entries_.FindInstance({key.group, key.instance});
  if (instance == nullptr) return nullptr;
  const auto* const execution = instance->executions.Find(key.execution);
  return execution != nullptr && (*execution)->key_ == key ? *execution
                                                           : nullptr;
}

std::vector<std::shared_ptr<Execution>> ExecutionTable::Running() {
  MutexLock lock(&mu_);
  return entries_.Running();
}

std::vector<std::shared_ptr<Execution>> ExecutionTable::RunningIn(
    GroupKey group_key, uint64_t generation) {
  const std::vector<std::shared_ptr<Execution>> all = Running();
  std::vector<std::shared_ptr<Execution>> running;
  MutexLock lock(&mu_);
  for (const auto& execution : all) {
    const std::optional<ExecKey>& key = OfTable(*execution).key_;
    if (key.has_value() && key->group == group_key &&
        key->generation == generation) {
      running.push_back(execution);
    }
  }
  return running;
}

}  // namespace tutti
