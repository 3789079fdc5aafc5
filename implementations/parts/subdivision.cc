#include "implementations/parts/subdivision.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "tutti/collective.h"

namespace tutti {
namespace {

constexpr int kDefaultSubdivsPerDevice = 2;

// More rings of launches are more and smaller launches. The host makes them one
// after the other.
int64_t MaxSubdivisions(const SubdivisionRequest& request) {
  if (request.max_subdivs_per_device < 0) return 1;
  if (request.max_subdivs_per_device == 0 && request.are_launches) return 1;
  const int64_t per_device = request.max_subdivs_per_device == 0
                                 ? kDefaultSubdivsPerDevice
                                 : request.max_subdivs_per_device;
  const int size = request.layout.size();
  return std::min({per_device * (size / request.layout.num_tasks()),
                   int64_t{kMaxSubdivisions}, kMaxChunks / size});
}

}  // namespace

std::vector<int> RingOrder(const GroupLayout& layout, int offset,
                           absl::Span<const int> rank_list) {
  std::vector<int> ring(rank_list.begin(), rank_list.end());
  if (ring.empty()) {
    for (const std::vector<int>& ranks : layout.tasks()) {
      ring.insert(ring.end(), ranks.begin(), ranks.end());
    }
  }
  std::vector<std::vector<int>> places(layout.num_tasks());  // Places by task.
  for (int place = 0; place < layout.size(); ++place) {
    places[layout.task_of(ring[place])].push_back(place);
  }
  const std::vector<int> first = ring;
  for (const std::vector<int>& own : places) {
    const auto size = static_cast<int64_t>(own.size());
    const int64_t start = std::abs(static_cast<int64_t>(offset)) % size;
    for (int64_t i = 0; i < size; ++i) {
      const int64_t device = (start + i) % size;
      ring[own[i]] = first[own[offset < 0 ? size - 1 - device : device]];
    }
  }
  return ring;
}

Ring::Ring(const PlanRequest& request, int subdiv)
    : subdiv_(subdiv),
      num_subdivs_(static_cast<int>(request.subdiv_offsets.size())),
      order_(RingOrder(request.layout, request.subdiv_offsets[subdiv],
                       request.rank_list)),
      position_(static_cast<int>(
          std::find(order_.begin(), order_.end(), request.rank) -
          order_.begin())) {}

Schedule PlanRings(
    const PlanRequest& request,
    absl::FunctionRef<void(const Ring& ring, ScheduleBuilder& builder)>
        add_ring) {
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
