#include "implementations/hierarchy.h"

#include <algorithm>
#include <vector>

#include "implementations/cost.h"

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

double SecondsInTask(const CostQuery& whole, const PartPrice& part) {
  const auto layout = GroupLayout::Uniform(1, LargestTask(whole.layout));
  return part.seconds({.type = part.type,
                       .layout = layout,
                       .bytes = part.bytes,
                       .model = whole.model,
                       .one_process = true});
}

double SecondsAcrossTasks(const CostQuery& whole, int num_devices,
                          const PartPrice& part) {
  const auto layout = GroupLayout::Uniform(whole.layout.num_tasks(), 1);
  CostModel shared = whole.model;
  shared.between.bytes_per_second /= num_devices;
  return part.seconds({.type = part.type,
                       .layout = layout,
                       .bytes = part.bytes,
                       .model = shared,
                       .one_process = whole.one_process});
}

}  // namespace tutti
