#ifndef TUTTI_SCHEDULE_SCHEDULE_CACHE_H_
#define TUTTI_SCHEDULE_SCHEDULE_CACHE_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "framework/mutex.h"
#include "framework/params.h"
#include "schedule/compiled_schedule.h"
#include "schedule/plan.h"

namespace tutti {

// The compiled schedules of one group, so that an algorithm plans once for all
// instances that differ only in key, size or dtype. A GroupResources object.
// Thread-safe. Holds at most `max_ops` steps beyond those that are in use.
class ScheduleCache {
 public:
  static constexpr size_t kMaxOps = size_t{1} << 22;

  explicit ScheduleCache(size_t max_ops = kMaxOps) : max_ops_(max_ops) {}
  ScheduleCache(const ScheduleCache&) = delete;
  ScheduleCache& operator=(const ScheduleCache&) = delete;

  // What the member of `params` does by `algorithm`. Errors: INVALID_ARGUMENT
  // if the algorithm's plan is not valid.
  absl::StatusOr<std::shared_ptr<const CompiledSchedule>> Get(
      const std::shared_ptr<const Algorithm>& algorithm,
      const CollectiveParams& params, bool in_place) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // All that a plan depends on within one group.
  struct Key {
    std::shared_ptr<const Algorithm> algorithm;
    CollectiveType type;
    int rank;
    int root;
    bool in_place;
    std::vector<int> permutation;
    std::vector<int> subdiv_offsets;
    friend bool operator==(const Key&, const Key&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& key) {
      return H::combine(std::move(h), key.algorithm, key.type, key.rank,
                        key.root, key.in_place, key.permutation,
                        key.subdiv_offsets);
    }
  };

  const size_t max_ops_;
  Mutex mu_;
  size_t num_ops_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<Key, std::shared_ptr<const CompiledSchedule>> schedules_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_SCHEDULE_CACHE_H_
