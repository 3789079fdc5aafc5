#include "framework/executor/execution_table.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/oldest_half.h"

namespace tutti {
namespace {

// First number of the executions in which members prepare.
constexpr uint64_t kPreparations = uint64_t{1} << 63;

std::string Describe(InstanceId id) {
  return absl::StrCat("group ", id.group_key, ", instance ", id.instance_key);
}

absl::Status CheckNumber(const Device* device, InstanceId id,
                         std::optional<uint64_t> number) {
  if (number.value_or(0) < kPreparations) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      device->full_name(), " called ", Describe(id), " by execution number ",
      *number, ", wanted less than ", kPreparations));
}

// Returns how many members of this process come, as long as their group is
// unknown. Ignores a group size that cannot be, or that does not exceed the
// rank.
size_t NumExpected(const CollectiveRequest& request, size_t num_local_devices) {
  if (request.group_size < 1 || request.rank >= request.group_size) {
    return num_local_devices;
  }
  return std::min(num_local_devices, static_cast<size_t>(request.group_size));
}

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

// Calls kept per device, some 500 bytes each. A small program has as many under
// way at a time.
constexpr size_t kMaxSpareCalls = 16;

}  // namespace

// Calls to use again, kept per device, because members of one device mostly
// call on one thread.
struct ABSL_CACHELINE_ALIGNED ExecutionTable::TableDevice {
  // Free call, with the fact that is known of it without reading it.
  struct Spare {
    std::unique_ptr<Call> call;
    const Settled* settled = nullptr;  // Settled facts of the call.
  };

  explicit TableDevice(std::string name) : name(std::move(name)) {}

  Spare TakeSpare() {
    if (num_spares > 0) return std::move(spares[--num_spares]);
    Spare made{std::make_unique<Call>()};
    made.call->device = this;
    return made;
  }

  // Takes the spare calls that hold `settled`.
  std::vector<std::unique_ptr<Call>> TakeSparesOf(const Settled* settled) {
    std::vector<std::unique_ptr<Call>> taken;
    size_t num_kept = 0;
    for (size_t i = 0; i < num_spares; ++i) {
      if (spares[i].settled == settled) {
        taken.push_back(std::move(spares[i].call));
      } else {
        std::swap(spares[num_kept++], spares[i]);
      }
    }
    num_spares = num_kept;
    return taken;
  }

  size_t num_spares = 0;
  std::array<Spare, kMaxSpareCalls> spares;
  const std::string name;
};

struct ExecutionTable::Member {
  const Device* device = nullptr;
  TableDevice* table_device = nullptr;
  InstanceId id;
  TableInstance* instance = nullptr;
  uint64_t num_calls = 0;
  uint64_t num_preparations = 0;
  bool gives_numbers = false;
  NumberSet numbers;         // Numbers that the member gave.
  uint64_t next_number = 0;  // Last given number plus one.
  std::shared_ptr<const Settled> settled;
  bool went_on_with_others = false;

  // Executions that cannot be used again. The next joiner frees them without
  // the lock.
  std::vector<std::shared_ptr<TableExecution>> dropped;

  // Returns the number of the execution where the others wait for a member that
  // breaks its habit: it gives a number now and did not before, or the other
  // way round. This is most likely the execution after its last.
  std::optional<uint64_t> TakeNumberMeant() {
    if (!gives_numbers) return num_calls;
    const uint64_t number = numbers.FirstMissing(next_number);
    if (number >= kPreparations) return std::nullopt;
    numbers.Insert(number);
    return number;
  }
};

ExecutionTable::ExecutionTable(int64_t step_id, size_t num_local_devices,
                               size_t max_entries)
    : step_id_(step_id),
      num_local_devices_(num_local_devices),
      max_entries_(max_entries) {}

ExecutionTable::~ExecutionTable() = default;

ExecutionTable::Member& ExecutionTable::FindOrAddMember(
    const Device* device, const CollectiveRequest& request) {
  const InstanceId id{request.group_key, request.instance_key};
  const auto [entry, is_new] = members_.try_emplace(MemberKey{device, id});
  if (!is_new) return *entry->second;
  std::unique_ptr<TableInstance>& instance = instances_[id];
  if (instance == nullptr) {
    instance = std::make_unique<TableInstance>();
    instance->num_expected = NumExpected(request, num_local_devices_);
    const auto& dependencies = request.impl_details.dependencies;
    if (!dependencies.empty()) kept_.insert(id);
    kept_.insert(dependencies.begin(), dependencies.end());
  }
  instance->members.push_back(device);
  entry->second = std::make_unique<Member>();
  entry->second->device = device;
  entry->second->id = id;
  entry->second->instance = instance.get();
  std::unique_ptr<TableDevice>& table_device = devices_[device];
  if (table_device == nullptr) {
    table_device = std::make_unique<TableDevice>(device->full_name());
  }
  entry->second->table_device = table_device.get();
  return *entry->second;
}

// Returns true if execution `number` is not for this member. Either nobody can
// join it now, or it belongs to an ended generation without this member. The
// members of that generation learn there that it failed.
bool ExecutionTable::IsOfOthers(const Member& member, uint64_t number) {
  const TableInstance& instance = *member.instance;
  if (instance.ended.Contains(number)) return true;
  const auto* const found = instance.executions.Find(number);
  if (found == nullptr || !(*found)->key_.has_value()) return false;
  const CollGroupParams& group = *(*found)->group_;
  return group.cancellation->cancelled() &&
         std::none_of(group.members.begin(), group.members.end(),
                      [&](const CollGroupMember& other) {
                        return other.device.name ==
                               member.device->attributes().name;
                      });
}

// Moves the member past executions in which it would wait alone. Does nothing
// for a member without a living group while others have one: it wants to join
// them by mistake, which ends none of their executions.
void ExecutionTable::GoOnWithOthers(Member& member) {
  const TableInstance& instance = *member.instance;
  if (member.gives_numbers || instance.spans_tasks ||
      !IsOfOthers(member, member.num_calls)) {
    return;
  }
  const bool is_in_group = LivingSettled(member) != nullptr;
  for (const Device* device : instance.members) {
    const Member& other = *members_.at(MemberKey{device, member.id});
    if (!is_in_group && LivingSettled(other) != nullptr) return;
  }
  member.went_on_with_others = true;
  do {
    member.num_calls = instance.ended.FirstMissing(member.num_calls + 1);
  } while (IsOfOthers(member, member.num_calls));
}

// Chooses the execution that the member's next call takes part in.
absl::StatusOr<uint64_t> ExecutionTable::ChooseNumber(
    const Device* device, InstanceId id, std::optional<uint64_t> number,
    Member& member) {
  const auto describe = [id] { return Describe(id); };
  if (member.num_calls > 0 && member.gives_numbers != number.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        device->full_name(), " called ", describe(),
        number.has_value() ? " by execution number now, but not before"
                           : " by execution number before, but not now"));
  }
  if (!number.has_value()) return member.num_calls;
  if (member.numbers.Contains(*number)) {
    return absl::AlreadyExistsError(absl::StrCat(device->full_name(),
                                                 " is already in execution ",
                                                 *number, " of ", describe()));
  }
  member.gives_numbers = true;
  member.numbers.Insert(*number);
  member.next_number = *number + 1;
  return *number;
}

absl::StatusOr<ExecutionTable::Joined> ExecutionTable::Join(
    const Device* device, const CollectiveRequest& request,
    std::optional<uint64_t> number, HoldOwner hold_owner) {
  // Check first: a refused call leaves nothing behind. ALREADY_EXISTS below
  // comes only to a member that was here before.
  const InstanceId id{request.group_key, request.instance_key};
  const absl::Status status = CheckNumber(device, id, number);
  if (!status.ok()) return status;
  Joined joined;
  std::vector<std::shared_ptr<TableExecution>> dropped;
  MutexLock lock(&mu_);
  if (members_.size() >= max_entries_ && !members_.contains({device, id})) {
    joined.forgotten = MakeRoom();
  }
  Member& member = FindOrAddMember(device, request);
  const Settled* const living = LivingSettled(member);
  if (living == nullptr && !number.has_value()) GoOnWithOthers(member);
  const auto chosen = ChooseNumber(device, member.id, number, member);
  if (absl::IsAlreadyExists(chosen.status())) return chosen.status();
  const std::optional<uint64_t> entered =
      chosen.ok() ? *chosen : member.TakeNumberMeant();
  if (!entered.has_value()) return chosen.status();
  ++member.num_calls;
  Enter(member, *entered, living, hold_owner, &joined.status);
  joined.execution = *member.instance->executions.Find(*entered);
  if (!chosen.ok()) joined.status = chosen.status();
  dropped.swap(member.dropped);
  joined.settled = member.settled;
  return joined;
}

// Keeps the critical section short, because other threads wait for it. It does
// not touch the call itself, which may lie in another thread's cache.
ExecutionTable::Call* ExecutionTable::JoinSettled(
    Device* device, const CollectiveRequest& request, HoldOwner hold_owner,
    absl::Status* status) {
  TableDevice::Spare spare;
  std::shared_ptr<const Settled> other_settled;
  TableExecution* execution = nullptr;
  std::vector<std::shared_ptr<TableExecution>> dropped;
  {
    MutexLock lock(&mu_);
    const auto found =
        members_.find({device, {request.group_key, request.instance_key}});
    if (found == members_.end()) return nullptr;
    Member& member = *found->second;
    const Settled* const settled = member.settled.get();
    if (settled == nullptr || settled->request.get() != &request ||
        settled->has_dependencies || member.gives_numbers ||
        settled->group_end->cancelled()) {
      return nullptr;
    }
    spare = member.table_device->TakeSpare();
    if (spare.settled != settled) other_settled = member.settled;
    execution = &Enter(member, member.num_calls++, settled, hold_owner, status);
    dropped.swap(member.dropped);
  }
  Call* const call = spare.call.release();  // Owned until the member leaves.
  if (other_settled != nullptr) call->settled = std::move(other_settled);
  call->execution = execution;
  CollectiveContext& context = call->context;
  context.params = call->settled->params.get();
  context.device = device;
  context.execution = execution;
  context.exec_key = *execution->key_;  // Constant while a member is in it.
  return call;
}

void ExecutionTable::KeepCalls(absl::Span<Call* const> calls,
                               std::vector<std::unique_ptr<Call>>* dropped) {
  for (Call* const call : calls) {
    TableDevice& device = *call->device;
    if (device.num_spares == device.spares.size() ||
        call->settled->group_end->cancelled()) {
      dropped->emplace_back(call);
      continue;
    }
    TableDevice::Spare& spare = device.spares[device.num_spares++];
    spare.call.reset(call);
    spare.settled = call->settled.get();
  }
}

Execution* ExecutionTable::JoinNext(Member& member, HoldOwner hold_owner,
                                    absl::Status* status) {
  std::vector<std::shared_ptr<TableExecution>> dropped;
  MutexLock lock(&mu_);
  absl::Status wrong;
  std::optional<uint64_t> number = member.num_calls;
  if (member.gives_numbers) {
    wrong =
        ChooseNumber(member.device, member.id, std::nullopt, member).status();
    number = member.TakeNumberMeant();
    if (!number.has_value()) {
      *status = std::move(wrong);
      return nullptr;
    }
  }
  ++member.num_calls;
  TableExecution* const execution =
      &Enter(member, *number, LivingSettled(member), hold_owner, status);
  if (!wrong.ok()) *status = std::move(wrong);
  dropped.swap(member.dropped);
  return execution;
}

ExecutionTable::Joined ExecutionTable::JoinPreparation(
    const Device* device, const CollectiveRequest& request,
    HoldOwner hold_owner) {
  Joined joined;
  std::vector<std::shared_ptr<TableExecution>> dropped;
  MutexLock lock(&mu_);
  joined.forgotten = MakeRoom();
  Member& member = FindOrAddMember(device, request);
  const uint64_t number = kPreparations + member.num_preparations++;
  Enter(member, number, LivingSettled(member), hold_owner, &joined.status);
  joined.execution = *member.instance->executions.Find(number);
  dropped.swap(member.dropped);
  joined.settled = member.settled;
  return joined;
}

ExecutionTable::Member& ExecutionTable::Hold(const Device* device,
                                             InstanceId id) {
  MutexLock lock(&mu_);
  Member& member = *members_.at(MemberKey{device, id});
  ++member.instance->num_held;
  return member;
}

void ExecutionTable::Release(Member& member) {
  MutexLock lock(&mu_);
  --member.instance->num_held;
}

ExecutionTable::Forgotten ExecutionTable::MakeRoom() {
  if (members_.size() < std::max(next_sweep_, max_entries_)) return {};
  return ForgetOldInstances();
}

const ExecutionTable::Settled* ExecutionTable::LivingSettled(
    const Member& member) {
  const Settled* const settled = member.settled.get();
  return settled != nullptr && !settled->group_end->cancelled() ? settled
                                                                : nullptr;
}

// Puts the member into the execution, even where it cannot run there.
TableExecution& ExecutionTable::Enter(Member& member, uint64_t number,
                                      const Settled* living,
                                      HoldOwner hold_owner,
                                      absl::Status* status) {
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
    Member& member, uint64_t number, const Settled* living) {
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

absl::Status ExecutionTable::Settle(const Device* device, Execution& settling,
                                    std::shared_ptr<const Settled> settled) {
  TableExecution& execution = OfTable(settling);
  // Freed without the lock.
  std::vector<std::shared_ptr<TableExecution>> others;
  std::vector<std::unique_ptr<Call>> outdated;
  MutexLock lock(&mu_);
  execution.resolved_ = true;
  Member& member = *members_.at(MemberKey{device, execution.id});
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
  std::swap(member.settled, settled);  // The caller frees the old one.
  if (settled != nullptr) {
    outdated = member.table_device->TakeSparesOf(settled.get());
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
  GoOnWithOthers(member);  // From now on, none ends without this member.
  return absl::OkStatus();
}

// Refuses a member whose count may differ from the counts of other tasks. Those
// tasks may have called the instance less often, or be new. Their members and
// this one would wait for each other in executions of different numbers.
absl::Status ExecutionTable::CheckGeneration(const Member& member,
                                             const CollGroupParams& group) {
  const bool is_new = member.settled == nullptr;
  const bool is_counted_alike =
      is_new ? !member.went_on_with_others
             : member.settled->generation == group.generation;
  if (is_counted_alike || member.gives_numbers) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "instance ", member.id.instance_key, " of group ", group.key,
      is_new ? " was called by others before"
             : absl::StrCat(" ran in generation ", member.settled->generation,
                            " of the group before"),
      ": in generation ", group.generation, " it needs another step than ",
      step_id_, ", in which not all members have called it equally often"));
}

absl::Status ExecutionTable::SetKey(TableExecution& execution,
                                    const Settled& settled) {
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
    left.to_forget = KeyToForget(execution);
  }
  if (execution.num_left_ == execution.joined_.size()) {
    left.owner = std::move(execution.owner_);
  } else if (leaving.num_unlaunched > 0) {
    left.owner = execution.owner_;  // Needed to report the launch afterwards.
  }
  KeepCalls(leaving.calls, &left.calls);
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
  if (ended != nullptr && !ended->resolved_ &&
      instance.spare.size() < kMaxSpare) {
    instance.spare.push_back(std::move(ended));
  }
  return ended;
}

std::optional<ExecKey> ExecutionTable::KeyToForget(
    const TableExecution& execution) {
  if (!execution.over_ || execution.num_cancelling_ > 0) return std::nullopt;
  return execution.key_;
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
  return KeyToForget(execution);
}

bool ExecutionTable::HasLaunched(InstanceId id, uint64_t number) {
  MutexLock lock(&mu_);
  const auto found = instances_.find(id);
  if (found == instances_.end()) return false;
  const TableInstance& instance = *found->second;
  if (instance.ended.Contains(number)) return true;
  const auto* const execution = instance.executions.Find(number);
  return execution != nullptr && IsLaunched(instance, **execution);
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
    names.push_back(devices_.at(device)->name);
  }
  return names;
}

std::shared_ptr<Execution> ExecutionTable::Find(const ExecKey& key) {
  MutexLock lock(&mu_);
  const auto found = instances_.find(InstanceId{key.group, key.instance});
  if (found == instances_.end()) return nullptr;
  const auto* const execution = found->second->executions.Find(key.execution);
  return execution != nullptr && (*execution)->key_ == key ? *execution
                                                           : nullptr;
}

std::vector<std::shared_ptr<Execution>> ExecutionTable::Running() {
  MutexLock lock(&mu_);
  std::vector<std::shared_ptr<Execution>> running;
  for (const auto& [id, instance] : instances_) {
    for (auto& execution : instance->executions.Values()) {
      running.push_back(std::move(execution));
    }
  }
  return running;
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

size_t ExecutionTable::num_instances() {
  MutexLock lock(&mu_);
  return instances_.size();
}

// Returns true if the execution failed and all its members have left.
bool ExecutionTable::IsAbandoned(const TableExecution& execution) {
  return execution.cancellation.cancelled() &&
         execution.num_left_ == execution.joined_.size();
}

uint64_t ExecutionTable::NumCalls(const Device* device, InstanceId id) {
  return members_.at(MemberKey{device, id})->num_calls;
}

bool ExecutionTable::IsIdle(InstanceId id, const TableInstance& instance) {
  if (kept_.contains(id) || instance.spans_tasks || instance.num_held > 0) {
    return false;
  }
  if (!instance.executions.empty()) {
    const auto executions = instance.executions.Values();
    return std::all_of(
        executions.begin(), executions.end(),
        [](const auto& execution) { return IsAbandoned(*execution); });
  }
  if (instance.members.size() < instance.num_expected) return false;
  const uint64_t num_calls = NumCalls(instance.members[0], id);
  for (const Device* device : instance.members) {
    if (NumCalls(device, id) != num_calls) return false;
  }
  return true;
}

// Forgets the less recently used half of the idle instances. The next sweep
// waits for twice as many entries as stay: a step that always runs many
// instances is rarely swept.
ExecutionTable::Forgotten ExecutionTable::ForgetOldInstances() {
  std::vector<std::pair<uint64_t, InstanceId>> idle;
  size_t num_idle_entries = 0;
  for (const auto& [id, instance] : instances_) {
    if (!IsIdle(id, *instance)) continue;
    idle.emplace_back(instance->last_used, id);
    num_idle_entries += instance->members.size();
  }
  Forgotten forgotten;
  const size_t num_busy_entries = members_.size() - num_idle_entries;
  next_sweep_ = max_entries_ + 2 * num_busy_entries;
  if (num_idle_entries <= max_entries_ / 2) return forgotten;  // Used lately.
  for (InstanceId id : OldestHalf(std::move(idle))) Forget(id, &forgotten);
  return forgotten;
}

void ExecutionTable::Forget(InstanceId id, Forgotten* forgotten) {
  const auto found = instances_.find(id);
  for (const auto& execution : found->second->executions.Values()) {
    execution->over_ = true;
    const auto key = KeyToForget(*execution);
    if (key.has_value()) forgotten->keys.push_back(*key);
  }
  for (const Device* device : found->second->members) {
    const auto member = members_.find(MemberKey{device, id});
    for (auto& call : member->second->table_device->TakeSparesOf(
             member->second->settled.get())) {
      forgotten->rest.emplace_back(std::move(call));
    }
    forgotten->rest.push_back(std::move(member->second->settled));
    members_.erase(member);
  }
  forgotten->rest.emplace_back(std::move(found->second));
  instances_.erase(found);
}

}  // namespace tutti
