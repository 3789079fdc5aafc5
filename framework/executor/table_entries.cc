#include "framework/executor/table_entries.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/base/oldest_half.h"

namespace tutti {
namespace {

// Returns how many members of this process come, as long as their group is
// unknown. Ignores a group size that cannot be, or that does not exceed the
// rank.
size_t NumExpected(const CollectiveRequest& request, size_t num_local_devices) {
  if (request.group_size < 1 || request.rank >= request.group_size) {
    return num_local_devices;
  }
  return std::min(num_local_devices, static_cast<size_t>(request.group_size));
}

std::string Describe(InstanceId id) {
  return absl::StrCat("group ", id.group_key, ", instance ", id.instance_key);
}

}  // namespace

absl::Status TableMember::CheckNumber(const Device* device, InstanceId id,
                                      uint64_t number) {
  if (number < kPreparations) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      device->full_name(), " called ", Describe(id), " by execution number ",
      number, ", wanted less than ", kPreparations));
}

std::optional<uint64_t> TableMember::TakeNumber(std::optional<uint64_t> number,
                                                absl::Status* error) {
  if (num_calls > 0 && gives_numbers != number.has_value()) {
    *error = absl::InvalidArgumentError(absl::StrCat(
        device->full_name(), " called ", Describe(id),
        number.has_value() ? " by execution number now, but not before"
                           : " by execution number before, but not now"));
    number.reset();
    if (gives_numbers) number = numbers.FirstMissing(next_number);
  } else if (number.has_value()) {
    if (numbers.Contains(*number)) {
      *error = absl::AlreadyExistsError(
          absl::StrCat(device->full_name(), " is already in execution ",
                       *number, " of ", Describe(id)));
      return std::nullopt;
    }
    gives_numbers = true;
    next_number = *number + 1;
  }
  if (!number.has_value()) return num_calls;
  if (*number >= kPreparations) return std::nullopt;
  numbers.Insert(*number);
  return number;
}

TableEntries::TableEntries(size_t num_local_devices, size_t max_entries,
                           uint64_t first_number)
    : num_local_devices_(num_local_devices),
      max_entries_(max_entries),
      first_number_(first_number) {}

TableEntries::~TableEntries() = default;

TableMember& TableEntries::AddMember(const Device* device,
                                     const CollectiveRequest& request) {
  const InstanceId id{request.group_key, request.instance_key};
  std::unique_ptr<TableMember>& entry = members_[MemberKey{device, id}];
  std::unique_ptr<TableInstance>& instance = instances_[id];
  if (instance == nullptr) {
    instance = std::make_unique<TableInstance>();
    instance->num_expected = NumExpected(request, num_local_devices_);
    const auto& dependencies = request.impl_details.dependencies;
    if (!dependencies.empty()) kept_.insert(id);
    kept_.insert(dependencies.begin(), dependencies.end());
  }
  instance->members.push_back(device);
  entry = std::make_unique<TableMember>();
  entry->device = device;
  entry->id = id;
  entry->instance = instance.get();
  entry->num_calls = first_number_;
  names_.try_emplace(device, device->full_name());
  return *entry;
}

// Returns true if execution `number` is not for this member. Either nobody can
// join it now, or it belongs to an ended generation without this member. The
// members of that generation learn there that it failed.
bool TableEntries::IsOfOthers(const TableMember& member, uint64_t number) {
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

void TableEntries::GoOnWithOthers(TableMember& member) const {
  const TableInstance& instance = *member.instance;
  if (member.gives_numbers || instance.spans_tasks ||
      !IsOfOthers(member, member.num_calls)) {
    return;
  }
  const bool is_in_group = member.LivingSettled() != nullptr;
  for (const Device* device : instance.members) {
    const TableMember& other = MemberOf(device, member.id);
    if (!is_in_group && other.LivingSettled() != nullptr) return;
  }
  member.went_on_with_others = true;
  do {
    member.num_calls = instance.ended.FirstMissing(member.num_calls + 1);
  } while (IsOfOthers(member, member.num_calls));
}

std::vector<std::shared_ptr<Execution>> TableEntries::Running() const {
  std::vector<std::shared_ptr<Execution>> running;
  for (const auto& [id, instance] : instances_) {
    for (auto& execution : instance->executions.Values()) {
      running.push_back(std::move(execution));
    }
  }
  return running;
}

const std::string& TableEntries::NameOf(const Device* device) const {
  return names_.at(device);
}

std::unique_ptr<TableEntries::Forgotten> TableEntries::MakeRoom() {
  if (members_.size() < std::max(next_sweep_, max_entries_)) return nullptr;
  return ForgetOldInstances();
}

bool TableEntries::IsIdle(InstanceId id, const TableInstance& instance) const {
  if (kept_.contains(id) || instance.spans_tasks || instance.num_held > 0) {
    return false;
  }
  for (const Device* device : instance.members) {
    const auto& announcement = MemberOf(device, id).announcement;
    if (announcement != nullptr && !announcement->is_answered()) return false;
  }
  if (!instance.executions.empty()) {
    const auto executions = instance.executions.Values();
    return std::all_of(
        executions.begin(), executions.end(),
        [](const auto& execution) { return execution->IsAbandoned(); });
  }
  if (instance.members.size() < instance.num_expected) return false;
  const uint64_t num_calls = MemberOf(instance.members[0], id).num_calls;
  for (const Device* device : instance.members) {
    if (MemberOf(device, id).num_calls != num_calls) return false;
  }
  return true;
}

// Forgets the less recently used half of the idle instances. The next sweep
// waits for twice as many entries as stay: a step that always runs many
// instances is rarely swept.
std::unique_ptr<TableEntries::Forgotten> TableEntries::ForgetOldInstances() {
  std::vector<std::pair<uint64_t, InstanceId>> idle;
  size_t num_idle_entries = 0;
  for (const auto& [id, instance] : instances_) {
    if (!IsIdle(id, *instance)) continue;
    idle.emplace_back(instance->last_used, id);
    num_idle_entries += instance->members.size();
  }
  const size_t num_busy_entries = members_.size() - num_idle_entries;
  next_sweep_ = max_entries_ + 2 * num_busy_entries;
  if (num_idle_entries <= max_entries_ / 2) return nullptr;  // Used lately.
  auto forgotten = std::make_unique<Forgotten>();
  for (InstanceId id : OldestHalf(std::move(idle))) Forget(id, forgotten.get());
  return forgotten;
}

void TableEntries::Forget(InstanceId id, Forgotten* forgotten) {
  const auto found = instances_.find(id);
  for (const auto& execution : found->second->executions.Values()) {
    execution->over_ = true;
    const auto key = execution->KeyToForget();
    if (key.has_value()) forgotten->keys.push_back(*key);
  }
  for (const Device* device : found->second->members) {
    const auto member = members_.find(MemberKey{device, id});
    forgotten->rest.push_back(std::move(member->second->settled));
    members_.erase(member);
  }
  forgotten->rest.emplace_back(std::move(found->second));
  instances_.erase(found);
}

}  // namespace tutti
