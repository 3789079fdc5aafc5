#include "schedule/schedule_cache.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "schedule/chunk_map.h"

namespace tutti {

absl::StatusOr<std::shared_ptr<const CompiledSchedule>> ScheduleCache::Get(
    const std::shared_ptr<const Algorithm>& algorithm,
    const CollectiveParams& params, bool in_place) {
  const CollInstanceParams& instance = *params.instance;
  Key key{algorithm,
          instance.type,
          params.default_rank,
          instance.root,
          in_place,
          instance.permutation,
          instance.impl_details.subdiv_offsets};
  {
    MutexLock lock(&mu_);
    const auto found = schedules_.find(key);
    if (found != schedules_.end()) return found->second;
  }
  const Schedule schedule =
      algorithm->plan({.layout = *params.group->layout,
                       .type = instance.type,
                       .rank = params.default_rank,
                       .root = instance.root,
                       .permutation = instance.permutation,
                       .subdiv_offsets = instance.impl_details.subdiv_offsets,
                       .in_place = in_place});
  const int group_size = params.group->size();
  if (!ChunkMap::Allows(instance.type, group_size, schedule.num_chunks)) {
    return absl::InvalidArgumentError(
        absl::StrCat(instance.impl_details.implementation, " plans ",
                     schedule.num_chunks, " chunks, which does not fit ",
                     Name(instance.type), " among ", group_size, " members"));
  }
  auto compiled =
      CompiledSchedule::Compile(schedule, ChunkMap(params, schedule.num_chunks),
                                params.default_rank, group_size);
  if (!compiled.ok()) return compiled.status();
  auto shared = std::make_shared<const CompiledSchedule>(*std::move(compiled));
  MutexLock lock(&mu_);
  if (num_ops_ + shared->ops().size() > max_ops_) {
    schedules_.clear();
    num_ops_ = 0;
  }
  if (schedules_.emplace(std::move(key), shared).second) {
    num_ops_ += shared->ops().size();
  }
  return shared;
}

}  // namespace tutti
