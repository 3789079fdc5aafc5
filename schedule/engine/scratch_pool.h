#ifndef TUTTI_SCHEDULE_ENGINE_SCRATCH_POOL_H_
#define TUTTI_SCHEDULE_ENGINE_SCRATCH_POOL_H_

#include <cstddef>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "framework/base/mutex.h"
#include "tutti/device.h"
#include "tutti/tensor.h"

namespace tutti {

// What the runs of a group's schedules set aside, kept for the runs after them:
// memory that is new to the process costs more time at its first use than what
// is done with it. One of a group's resources, so that it goes with the group.
// Thread-safe.
class ScratchPool {
 public:
  // Less is quickly had of the memory allocator.
  static constexpr size_t kFewBytes = size_t{128} << 10;

  // Of one member, and how many tensors of it: as many as runs are mostly under
  // way at a time.
  static constexpr size_t kMostKeptBytes = size_t{64} << 20;
  static constexpr size_t kMostKept = 2;

  ScratchPool() = default;
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  // At least so many uninitialised bytes of the device of the group's member
  // `rank`, and at most twice as many. Errors: those of Device::Allocate().
  absl::StatusOr<Tensor> Take(int rank, Device& device, size_t num_bytes)
      ABSL_LOCKS_EXCLUDED(mu_);

  // What Take() gave that member, once nobody touches it any more. What was
  // kept longest makes room.
  void Give(int rank, Tensor scratch) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  Mutex mu_;
  absl::flat_hash_map<int, std::vector<Tensor>> kept_
      ABSL_GUARDED_BY(mu_);  // By rank, the latest last.
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_SCRATCH_POOL_H_
