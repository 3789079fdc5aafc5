#include "implementations/parts/pipelines.h"

#include <algorithm>
#include <cmath>

#include "implementations/parts/subdivision.h"
#include "tutti/params.h"

namespace tutti {
namespace {

// Rotates `order` to begin with the task of `source`, and that task with
// `source`.
void StartAt(int source, const GroupLayout& layout, std::vector<int>* order) {
  const int task = layout.task_of(source);
  const auto first = std::find_if(order->begin(), order->end(), [&](int rank) {
    return layout.task_of(rank) == task;
  });
  std::rotate(order->begin(), first, order->end());
  const auto end =
      order->begin() + static_cast<int64_t>(layout.tasks()[task].size());
  std::rotate(order->begin(), std::find(order->begin(), end, source), end);
}

}  // namespace

std::vector<Pipeline> PipelinesOf(const PlanRequest& request) {
  const auto& offsets = request.subdiv_offsets;
  std::vector<Pipeline> pipelines;
  for (size_t i = 0; i < offsets.size(); ++i) {
    const auto same = std::find_if(
        pipelines.begin(), pipelines.end(), [&](const Pipeline& pipeline) {
          return offsets[pipeline.subdivs.front()] == offsets[i];
        });
    if (same != pipelines.end()) {
      same->subdivs.push_back(static_cast<int>(i));
    } else {
      pipelines.push_back({.order = RingOrder(request.layout, offsets[i]),
                           .subdivs = {static_cast<int>(i)}});
    }
  }
  return pipelines;
}

std::vector<Pipeline> PipelinesFromSource(const PlanRequest& request) {
  std::vector<Pipeline> pipelines = PipelinesOf(request);
  for (Pipeline& pipeline : pipelines) {
    StartAt(request.root, request.layout, &pipeline.order);
  }
  return pipelines;
}

int PositionIn(const std::vector<int>& order, int rank) {
  return static_cast<int>(std::find(order.begin(), order.end(), rank) -
                          order.begin());
}

// Minimises (rounds - 1 + pieces) * (latency + load * bytes / pieces /
// bandwidth): at the minimum both products with `pieces` are equal.
int NumPieces(const SubdivisionRequest& request, const PipelineShape& shape) {
  int most = kMaxPieces;
  if (request.max_subdivs_per_device < 0) most = 1;
  if (request.max_subdivs_per_device > 0) {
    const int devices = request.layout.size() / request.layout.num_tasks();
    most = static_cast<int>(std::min<int64_t>(
        most, int64_t{request.max_subdivs_per_device} * devices));
  }
  const CostModel model;
  const LinkCost& link =
      request.layout.num_tasks() > 1 ? model.between : model.within;
  const double seconds =
      shape.load * static_cast<double>(request.bytes) / link.bytes_per_second;
  const double best = std::sqrt(std::max(shape.num_rounds - 1, 0) * seconds /
                                link.latency_seconds);
  return static_cast<int>(std::clamp<double>(best, 1, most));
}

}  // namespace tutti
