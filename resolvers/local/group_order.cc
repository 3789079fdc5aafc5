#include "resolvers/local/group_order.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tutti {
namespace {

// Compares names; numbers compare as numbers.
bool NameIsLess(const DeviceName& a, const DeviceName& b) {
  return std::tie(a.job, a.replica, a.task, a.type, a.index) <
         std::tie(b.job, b.replica, b.task, b.type, b.index);
}

bool SameTask(const DeviceName& a, const DeviceName& b) {
  return std::tie(a.job, a.replica, a.task) ==
         std::tie(b.job, b.replica, b.task);
}

std::vector<int> SortedByName(absl::Span<const DeviceAttributes> devices) {
  std::vector<int> order(devices.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return NameIsLess(devices[a].name, devices[b].name);
  });
  return order;
}

int LinkStrength(const DeviceAttributes& from, const DeviceAttributes& to) {
  int strength = 0;
  for (const DeviceLink& link : from.locality.links) {
    if (link.device_index == to.name.index) {
      strength = std::max(strength, link.strength);
    }
  }
  return strength;
}

// Reorders one task's devices, given in the order of their indices.
void FollowLinks(absl::Span<const DeviceAttributes> devices,
                 absl::Span<int> order) {
  for (size_t i = 1; i < order.size(); ++i) {
    const DeviceAttributes& last = devices[order[i - 1]];
    const auto next =
        std::max_element(order.begin() + i, order.end(), [&](int a, int b) {
          return LinkStrength(last, devices[a]) <
                 LinkStrength(last, devices[b]);
        });
    // Keeps the order of the other devices: ties go to the lowest index.
    std::rotate(order.begin() + i, next, next + 1);
  }
}

bool HasLinks(absl::Span<const DeviceAttributes> devices) {
  return std::any_of(devices.begin(), devices.end(),
                     [](const DeviceAttributes& device) {
                       return !device.locality.links.empty();
                     });
}

}  // namespace

std::vector<int> DefaultRankOrder(absl::Span<const DeviceAttributes> devices) {
  std::vector<int> order = SortedByName(devices);
  if (!HasLinks(devices)) return order;
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() &&
           SameTask(devices[order[begin]].name, devices[order[end]].name)) {
      ++end;
    }
    FollowLinks(devices, absl::MakeSpan(order).subspan(begin, end - begin));
    begin = end;
  }
  return order;
}

}  // namespace tutti
