#include "framework/executor/table_entries.h"

#include <algorithm>

#include "framework/base/oldest_half.h"
#include "framework/executor/table_device.h"
#include "framework/executor/table_instance.h"
#include "framework/executor/table_member.h"

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

}  // namespace

TableEntries::TableEntries(size_t num_local_devices, size_t max_entries)
    : num_local_devices_(num_local_devices), max_entries_(max_entries) {}

TableEntries::~TableEntries() = default;

TableMember& TableEntries::FindOrAddMember(const Device* device,
                                           const CollectiveRequest& request) {
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
  entry->second = std::make_unique<TableMember>();
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
  return devices_.at(device)->name;
}

TableEntries::Forgotten TableEntries::MakeRoom() {
  if (members_.size() < std::max(next_sweep_, max_entries_)) return {};
  return ForgetOldInstances();
}

bool TableEntries::IsIdle(InstanceId id, const TableInstance& instance) const {
  if (kept_.contains(id) || instance.spans_tasks || instance.num_held > 0) {
    return false;
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
TableEntries::Forgotten TableEntries::ForgetOldInstances() {
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

void TableEntries::Forget(InstanceId id, Forgotten* forgotten) {
  const auto found = instances_.find(id);
  for (const auto& execution : found->second->executions.Values()) {
    execution->over_ = true;
    const auto key = execution->KeyToForget();
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
