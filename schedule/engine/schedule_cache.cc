#include "schedule/engine/schedule_cache.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/oldest_half.h"

namespace tutti {

absl::StatusOr<std::shared_ptr<const CompiledSchedule>> ScheduleCache::Get(
    const std::shared_ptr<const Algorithm>& algorithm,
    const CollectiveParams& params, bool in_place) {
  const CollInstanceParams& instance = *params.instance;
  const int rank = params.default_rank;
  Key key{algorithm,
          instance.type,
          rank,
          instance.root,
          in_place,
          /*uneven=*/!instance.rows.empty(),
          instance.permutation,
          instance.impl_details.subdiv_offsets,
          instance.impl_details.rank_list};
  if (auto found = Find(key); found != nullptr) return found;
  const Schedule schedule =
      algorithm->plan({.layout = *params.group->layout,
                       .type = instance.type,
                       .rank = rank,
                       .root = instance.root,
                       .permutation = instance.permutation,
                       .subdiv_offsets = instance.impl_details.subdiv_offsets,
                       .rank_list = instance.impl_details.rank_list,
                       .blocks_differ = key.uneven,
                       .in_place = in_place});
  const int group_size = params.group->size();
  GroupMemory memory{.type = instance.type,
                     .num_ranks = group_size,
                     .root = instance.root,
                     .num_chunks = schedule.num_chunks,
                     .uneven = key.uneven,
                     .in_place = std::vector<bool>(group_size)};
  memory.in_place[rank] = in_place;
  auto compiled = CompiledSchedule::Compile(schedule, memory, rank);
  if (!compiled.ok()) {
    return absl::Status(
        compiled.status().code(),
        absl::StrCat("the plan of ", instance.impl_details.implementation,
                     " is not valid: ", compiled.status().message()));
  }
  auto shared = std::make_shared<const CompiledSchedule>(*std::move(compiled));
  Insert(std::move(key), shared);
  return shared;
}

std::shared_ptr<const CompiledSchedule> ScheduleCache::Find(const Key& key) {
  MutexLock lock(&mu_);
  const auto found = table_.find(key);
  if (found == table_.end()) return nullptr;
  found->second.last_used = ++num_uses_;
  return found->second.schedule;
}

void ScheduleCache::Insert(Key key,
                           std::shared_ptr<const CompiledSchedule> schedule) {
  constexpr size_t kNumbersOfAKey = 16;  // About, without its lists.
  const size_t num_numbers = kNumbersOfAKey + key.permutation.size() +
                             key.subdiv_offsets.size() + key.rank_list.size() +
                             schedule->ops().size();
  std::vector<Entry> forgotten;  // Destroyed without the lock.
  MutexLock lock(&mu_);
  while (!table_.empty() && num_numbers_ + num_numbers > max_numbers_) {
    ForgetOldHalf(&forgotten);
  }
  const bool is_new =
      table_
          .try_emplace(std::move(key),
                       Entry{std::move(schedule), num_numbers, ++num_uses_})
          .second;
  if (is_new) num_numbers_ += num_numbers;
}

void ScheduleCache::ForgetOldHalf(std::vector<Entry>* forgotten) {
  std::vector<std::pair<uint64_t, Table::iterator>> uses;
  for (auto entry = table_.begin(); entry != table_.end(); ++entry) {
    uses.emplace_back(entry->second.last_used, entry);
  }
  for (const Table::iterator& entry : OldestHalf(std::move(uses))) {
    num_numbers_ -= entry->second.num_numbers;
    forgotten->push_back(std::move(entry->second));
    table_.erase(entry);
  }
}

}  // namespace tutti
