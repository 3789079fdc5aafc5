#ifndef TUTTI_SCHEDULE_ENGINE_SCHEDULE_CACHE_H_
#define TUTTI_SCHEDULE_ENGINE_SCHEDULE_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "framework/base/mutex.h"
#include "schedule/compiled_schedule.h"
#include "tutti/params.h"
#include "tutti/schedule.h"

namespace tutti {

// The compiled schedules of one group: an algorithm plans once for all
// instances that differ only in key, size or dtype. A GroupResources object.
// Thread-safe.
//
// Bounds its size to `max_numbers`, counting steps and the numbers that a
// request lists. An insert that would exceed the bound first drops the less
// recently used half, repeatedly if needed. A schedule above the bound is kept
// alone. A dropped schedule lives while it is in use.
class ScheduleCache {
 public:
  static constexpr size_t kMaxNumbers = size_t{1} << 22;

  explicit ScheduleCache(size_t max_numbers = kMaxNumbers)
      : max_numbers_(max_numbers) {}
  ScheduleCache(const ScheduleCache&) = delete;
  ScheduleCache& operator=(const ScheduleCache&) = delete;

  // Returns the schedule of `algorithm` for the member of `params`. Errors:
  // INVALID_ARGUMENT if the algorithm's plan is not valid.
  absl::StatusOr<std::shared_ptr<const CompiledSchedule>> Get(
      const std::shared_ptr<const Algorithm>& algorithm,
      const CollectiveParams& params, bool in_place) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Everything a plan depends on within one group.
  struct Key {
    std::shared_ptr<const Algorithm> algorithm;
    CollectiveType type;
    int rank;
    int root;
    bool in_place;
    bool uneven;
    std::vector<int> permutation;
    std::vector<int> subdiv_offsets;
    std::vector<int> rank_list;
    friend bool operator==(const Key&, const Key&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& key) {
      return H::combine(std::move(h), key.algorithm, key.type, key.rank,
                        key.root, key.in_place, key.uneven, key.permutation,
                        key.subdiv_offsets, key.rank_list);
    }
  };
  struct Entry {
    std::shared_ptr<const CompiledSchedule> schedule;
    size_t num_numbers = 0;
    uint64_t last_used = 0;
  };
  using Table = absl::flat_hash_map<Key, Entry>;

  // Returns null if the table has no schedule for `key`.
  std::shared_ptr<const CompiledSchedule> Find(const Key& key)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Insert(Key key, std::shared_ptr<const CompiledSchedule> schedule)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Moves the dropped entries to `forgotten`.
  void ForgetOldHalf(std::vector<Entry>* forgotten)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const size_t max_numbers_;
  Mutex mu_;
  size_t num_numbers_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t num_uses_ ABSL_GUARDED_BY(mu_) = 0;
  Table table_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_SCHEDULE_CACHE_H_
