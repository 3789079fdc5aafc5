#include "implementations/subdivision.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "framework/collective_request.h"

namespace tutti {
namespace {

constexpr int kDefaultSubdivsPerDevice = 2;

int64_t MaxSubdivisions(const SubdivisionRequest& request) {
  if (request.max_subdivs_per_device < 0) return 1;
  const int64_t per_device = request.max_subdivs_per_device == 0
                                 ? kDefaultSubdivsPerDevice
                                 : request.max_subdivs_per_device;
  const int size = request.layout.size();
  return std::min({per_device * (size / request.layout.num_tasks()),
                   int64_t{kMaxSubdivisions}, kMaxChunks / size});
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

Ring::Ring(const PlanRequest& request, int subdiv)
    : subdiv_(subdiv),
      num_subdivs_(static_cast<int>(request.subdiv_offsets.size())),
      order_(RingOrder(request.layout, request.subdiv_offsets[subdiv])),
      position_(static_cast<int>(
          std::find(order_.begin(), order_.end(), request.rank) -
          order_.begin())) {}

Schedule PlanRings(const PlanRequest& request,
                   void (*add_ring)(const Ring& ring,
                                    ScheduleBuilder& builder)) {
  const int num_subdivs = static_cast<int>(request.subdiv_offsets.size());
  ScheduleBuilder builder(request.layout.size() * num_subdivs);
  for (int subdiv = 0; subdiv < num_subdivs; ++subdiv) {
    add_ring(Ring(request, subdiv), builder);
  }
  return builder.Build();
}

std::vector<int> DefaultSubdivisions(const SubdivisionRequest& request) {
  const int size = request.layout.size();
  const int devices_per_task = size / request.layout.num_tasks();
  const int64_t ring_bytes = kMaxRingChunkBytes * size;
  const int64_t wanted = (request.bytes - 1) / ring_bytes + 1;
  const int num_subdivs = static_cast<int>(
      std::clamp<int64_t>(wanted, 1, MaxSubdivisions(request)));
  const int stride = std::max(devices_per_task / num_subdivs, 1);
  std::vector<int> offsets(num_subdivs);
  for (int i = 0; i < num_subdivs; ++i) {
    offsets[i] = i % 2 == 0 ? i * stride : -i * stride;
  }
  return offsets;
}

}  // namespace tutti
