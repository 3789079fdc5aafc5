#include "implementations/hierarchy.h"

#include <algorithm>
#include <vector>

namespace tutti {

bool IsEven(const GroupLayout& layout) {
  return SmallestTask(layout) == LargestTask(layout);
}

Hierarchy::Hierarchy(const GroupLayout& layout, int rank)
    : layout_(layout),
      rank_(rank),
      device_(static_cast<int>(
          std::lower_bound(devices().begin(), devices().end(), rank) -
          devices().begin())) {}

std::vector<int> Hierarchy::Column(int device) const {
  std::vector<int> ranks;
  for (const std::vector<int>& devices : layout_.tasks()) {
    ranks.push_back(devices[device]);
  }
  return ranks;
}

Traffic TrafficInTask(const CostQuery& whole, PartTraffic part,
                      CollectiveType type) {
  const auto layout = GroupLayout::Uniform(1, LargestTask(whole.layout));
  return part({.type = type, .layout = layout, .one_process = true});
}

Traffic TrafficAcrossTasks(const CostQuery& whole, int num_devices,
                           PartTraffic part, CollectiveType type) {
  const auto layout = GroupLayout::Uniform(whole.layout.num_tasks(), 1);
  return part(
             {.type = type, .layout = layout, .one_process = whole.one_process})
      .ByMembers(num_devices);
}

}  // namespace tutti
