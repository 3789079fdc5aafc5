#include "schedule/first_members.h"

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "framework/collective/group_part.h"
#include "framework/collective/group_resources.h"
#include "tutti/params.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// Resource of the whole group: lives as long as the group.
class FirstMembers {
 public:
  std::shared_ptr<const CollGroupParams> Of(const CollGroupParams& whole) {
    std::call_once(once_, [&] {
      std::vector<int> first_ranks;
      for (const std::vector<int>& ranks : whole.layout->tasks()) {
        first_ranks.push_back(ranks.front());
      }
      group_ = MakeGroupPart(whole, std::move(first_ranks));
    });
    return group_;
  }

 private:
  std::once_flag once_;
  std::shared_ptr<const CollGroupParams> group_;
};

}  // namespace

bool IsFirstOfTask(const CollectiveParams& whole) {
  const GroupLayout& layout = *whole.group->layout;
  const int task = layout.task_of(whole.default_rank);
  return layout.tasks()[static_cast<size_t>(task)].front() ==
         whole.default_rank;
}

std::vector<int> TasksOf(const GroupLayout& layout,
                         absl::Span<const int> ranks) {
  std::vector<int> tasks;
  for (const int rank : ranks) {
    const int task = layout.task_of(rank);
    if (!absl::c_linear_search(tasks, task)) tasks.push_back(task);
  }
  return tasks;
}

CollectiveParams AmongFirstMembers(const CollectiveParams& whole,
                                   int64_t num_elements) {
  CollectiveParams params = whole;
  params.group =
      whole.group->resources->GetOrCreate<FirstMembers>()->Of(*whole.group);
  params.default_rank = whole.group->layout->task_of(whole.default_rank);
  auto instance = std::make_shared<CollInstanceParams>(*whole.instance);
  instance->final_op = FinalOp();
  std::vector<int>& list = instance->impl_details.rank_list;
  list = TasksOf(*whole.group->layout, list);
  instance->shape = TensorShape::Vector(num_elements);
  params.input_shape = instance->shape;
  params.output_shape = instance->shape;
  params.instance = std::move(instance);
  auto local = std::make_shared<CollTaskParams>();
  local->is_local.resize(params.group->members.size());
  local->is_local[static_cast<size_t>(params.default_rank)] = true;
  local->num_local = 1;
  params.task = std::move(local);
  return params;
}

}  // namespace tutti
