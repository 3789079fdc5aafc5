#include "implementations/subdivision.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace tutti {
namespace {

constexpr int kDefaultSubdivsPerDevice = 2;

int MaxSubdivisions(int max_subdivs_per_device, int devices_per_task) {
  if (max_subdivs_per_device < 0) return 1;
  const int64_t per_device = max_subdivs_per_device == 0
                                 ? kDefaultSubdivsPerDevice
                                 : max_subdivs_per_device;
  constexpr int64_t kLimit = 1 << 16;
  return static_cast<int>(std::min(per_device * devices_per_task, kLimit));
}

}  // namespace

std::vector<int> RingOrder(const GroupLayout& layout, int offset) {
  std::vector<int> ring;
  ring.reserve(layout.size());
  for (const std::vector<int>& ranks : layout.tasks()) {
    std::vector<int> devices = ranks;
    if (offset < 0) std::reverse(devices.begin(), devices.end());
    const int64_t start = std::abs(static_cast<int64_t>(offset)) %
                          static_cast<int64_t>(devices.size());
    ring.insert(ring.end(), devices.begin() + start, devices.end());
    ring.insert(ring.end(), devices.begin(), devices.begin() + start);
  }
  return ring;
}

Ring::Ring(const GroupLayout& layout, int offset, int rank)
    : order_(RingOrder(layout, offset)),
      position_(static_cast<int>(std::find(order_.begin(), order_.end(), rank) -
                                 order_.begin())) {}

std::vector<int> DefaultSubdivisions(const SubdivisionRequest& request) {
  const int size = request.layout.size();
  const int devices_per_task = size / request.layout.num_tasks();
  const int64_t ring_bytes = kMaxRingChunkBytes * size;
  const int64_t wanted = (request.bytes - 1) / ring_bytes + 1;
  const int num_subdivs = static_cast<int>(std::clamp<int64_t>(
      wanted, 1,
      MaxSubdivisions(request.max_subdivs_per_device, devices_per_task)));
  const int stride = std::max(devices_per_task / num_subdivs, 1);
  std::vector<int> offsets(num_subdivs);
  for (int i = 0; i < num_subdivs; ++i) {
    offsets[i] = i % 2 == 0 ? i * stride : -i * stride;
  }
  return offsets;
}

}  // namespace tutti
