#include "implementations/two_level/hierarchy.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tutti/collective.h"

namespace tutti {

bool IsEven(const GroupLayout& layout) {
  return SmallestTask(layout) == LargestTask(layout);
}

GroupLayout FirstsOf(int num_tasks) {
  return GroupLayout::Uniform(num_tasks, /*devices_per_task=*/1);
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

int NumChunksOfPart(PlanFunction plan, const PlanRequest& request) {
  return std::clamp(plan(request).num_chunks, 1,
                    static_cast<int>(kMaxChunks) + 1);
}

std::string ProblemOfChunks(int64_t num_chunks) {
  if (num_chunks <= kMaxChunks) return "";
  return absl::StrCat(num_chunks, " chunks; wants at most ", kMaxChunks);
}

HierarchicalPlanner::HierarchicalPlanner(const PlanRequest& request,
                                         int num_chunks)
    : request_(request),
      hierarchy_(request.layout, request.rank),
      whole_({.type = request.type,
              .num_ranks = request.layout.size(),
              .num_chunks = num_chunks},
             request.rank) {}

void HierarchicalPlanner::AddInTask(Part part) {
  Add(GroupLayout::Uniform(1, hierarchy_.num_devices()), hierarchy_.device(),
      hierarchy_.devices(), std::move(part));
}

void HierarchicalPlanner::AddAcrossTasks(int device, Part part) {
  if (hierarchy_.device() != device) return AddNothing(part.num_tags);
  Add(GroupLayout::Uniform(hierarchy_.num_tasks(), 1), hierarchy_.task(),
      hierarchy_.Column(device), std::move(part));
}

void HierarchicalPlanner::Add(const GroupLayout& layout, int rank,
                              std::vector<int> ranks, Part part) {
  const bool in_place =
      request_.in_place || whole_.IsInOutput(part.chunks.front());
  const bool blocks_differ =
      request_.blocks_differ || request_.type == CollectiveType::kAllReduce;
  const absl::Span<const int> offsets =
      part.subdiv_offsets.empty() ? kOneRing : part.subdiv_offsets;
  whole_.Add({.schedule = part.plan({.layout = layout,
                                     .type = part.type,
                                     .rank = rank,
                                     .root = part.root,
                                     .subdiv_offsets = offsets,
                                     .rank_list = part.rank_list,
                                     .blocks_differ = blocks_differ,
                                     .in_place = in_place}),
              .ranks = std::move(ranks),
              .chunks = std::move(part.chunks),
              .num_tags = part.num_tags,
              .first_tag = part.first_tag,
              .tag_stride = part.tag_stride,
              .finishes = part.finishes,
              .ends_at_once = part.ends_at_once});
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
