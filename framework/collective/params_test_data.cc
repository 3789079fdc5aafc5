#include "framework/collective/params_test_data.h"

#include <utility>

#include "absl/types/span.h"
#include "framework/collective/group_resources.h"
#include "framework/collective/member_params.h"

namespace tutti {

TensorShape ShapeOf(std::initializer_list<int64_t> dims) {
  return TensorShape::Create(absl::MakeConstSpan(dims.begin(), dims.size()))
      .value();
}

std::shared_ptr<const CollGroupParams> GroupOf(int size) {
  auto group = std::make_shared<CollGroupParams>();
  group->key = 1;
  group->generation = 1;
  group->device_type = "CPU";
  for (int rank = 0; rank < size; ++rank) {
    group->members.push_back(
        {.device = {.name = {"localhost", 0, 0, "CPU", rank}}});
  }
  group->layout =
      std::make_shared<const GroupLayout>(GroupLayout::Uniform(1, size));
  group->cancellation = std::make_shared<Cancellation>();
  group->resources = std::make_shared<GroupResources>();
  return group;
}

std::shared_ptr<const CollectiveParams> ParamsOf(
    const CollInstanceParams& instance,
    std::shared_ptr<const CollGroupParams> group, int rank) {
  const int size = group->size();
  auto task = std::make_shared<CollTaskParams>();
  task->is_local.assign(static_cast<size_t>(size), true);
  task->num_local = size;
  return MakeMemberParams(std::move(group),
                          std::make_shared<const CollInstanceParams>(instance),
                          std::move(task), rank)
      .value();
}

std::shared_ptr<const CollectiveParams> ParamsOf(
    const CollInstanceParams& instance, int group_size, int rank) {
  return ParamsOf(instance, GroupOf(group_size), rank);
}

}  // namespace tutti
