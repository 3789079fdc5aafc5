#include "resolvers/local/led_group.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/rank_list.h"

namespace tutti {

bool LedGroup::IsAwaitedBy(absl::string_view task_name) const {
  return waiting.HasCallOfTask(task_name) ||
         std::any_of(instances.begin(), instances.end(),
                     [&](const auto& entry) {
                       return entry.second->waiting.HasCallOfTask(task_name);
                     });
}

bool LedGroup::IsFormedWith(absl::string_view task_name,
                            uint64_t incarnation) const {
  if (!status.ok() || cancellation == nullptr) return false;
  return builder.HasMemberOfTask(task_name, incarnation);
}

std::string LedGroup::DescribeWaiting(InstanceKey key) const {
  if (!status.ok()) return "";
  if (cancellation == nullptr) {
    return absl::StrCat("group phase: ", builder.Describe());
  }
  const auto entry = instances.find(key);
  if (entry == instances.end() || entry->second->all_arrived()) return "";
  std::vector<int> absent;
  for (int rank = 0; rank < params->size(); ++rank) {
    if (entry->second->requests[rank] == nullptr) absent.push_back(rank);
  }
  const auto name = [&](size_t i) {
    return absl::StrCat("rank ", absent[i], " (",
                        params->members[absent[i]].device.name.ToString(), ")");
  };
  return absl::StrCat("instance phase: ", ShortList(absent.size(), name),
                      " had not arrived");
}

}  // namespace tutti
