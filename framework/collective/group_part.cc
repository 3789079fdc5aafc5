#include "framework/collective/group_part.h"

#include <cstddef>
#include <utility>

#include "framework/collective/group_resources.h"

namespace tutti {

std::shared_ptr<const CollGroupParams> MakeGroupPart(
    const CollGroupParams& whole, std::vector<int> ranks) {
  auto part = std::make_shared<CollGroupParams>();
  part->key = whole.key;
  part->generation = whole.generation;
  part->device_type = whole.device_type;
  part->cancellation = whole.cancellation;
  part->resources = std::make_shared<GroupResources>();
  std::vector<int> tasks;
  for (const int rank : ranks) {
    part->members.push_back(whole.members[static_cast<size_t>(rank)]);
    tasks.push_back(whole.layout->task_of(rank));
  }
  part->layout =
      std::make_shared<const GroupLayout>(*GroupLayout::Create(tasks));
  part->resources->GetOrCreate<RanksInKeys>()->ranks = std::move(ranks);
  return part;
}

}  // namespace tutti
