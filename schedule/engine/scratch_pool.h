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

// Keeps the scratch memory of a group's finished runs for later runs. The first
// use of memory new to the process takes longer than the run's work on it. A
// resource of the group, destroyed with it. Thread-safe.
class ScratchPool {
 public:
  // Allocations below this are cheap without a pool.
  static constexpr size_t kFewBytes = size_t{128} << 10;

  // Bounds of the memory kept for one member: bytes and tensors. At most about
  // two runs are usually in progress at a time.
  static constexpr size_t kMostKeptBytes = size_t{64} << 20;
  static constexpr size_t kMostKept = 2;

  ScratchPool() = default;
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  // Returns at least `num_bytes` uninitialised bytes on the device of the
  // group's member `rank`, and at most twice as many. Errors: errors of
  // Device::Allocate().
  absl::StatusOr<Tensor> Take(int rank, Device& device, size_t num_bytes)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Returns memory of Take() to the pool. Call it when the memory has no users.
  // The pool drops its oldest memory to make room.
  void Give(int rank, Tensor scratch) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  Mutex mu_;
  absl::flat_hash_map<int, std::vector<Tensor>> kept_
      ABSL_GUARDED_BY(mu_);  // By rank, newest last.
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_SCRATCH_POOL_H_
