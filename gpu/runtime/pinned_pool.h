#ifndef TUTTI_GPU_RUNTIME_PINNED_POOL_H_
#define TUTTI_GPU_RUNTIME_PINNED_POOL_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/mutex.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// Pinned memory for bytes on the way: the host's, between GPUs and what cannot
// reach their memory, or a GPU's, for what uses that. Buffers are made
// when there is none of the size, which may wait for the GPUs, and kept for the
// next who asks. Nobody waits for a buffer: who holds one may himself wait for
// others, in this process or another.
//
// A buffer that comes back is kept where there is room for it, or can be made:
// of those kept, the ones of the sizes used longest ago then go. A size is used
// when a buffer of it is taken or comes back.
//
// Thread-safe. The runtime outlives it.
class PinnedPool : public std::enable_shared_from_this<PinnedPool> {
 public:
  struct Options {
    GpuRuntime* runtime = nullptr;
    int gpu = 0;  // Whose fault, and no other's, ends that memory is made.
    bool is_on_gpu = false;  // Its own; else the host's.

    // What lies here unused at most; more is freed, which may wait for the
    // GPUs and holds up only who gives a buffer back.
    size_t kept_bytes = size_t{256} << 20;

    // What is given out at a time at most, with what was abandoned.
    size_t most_bytes = std::numeric_limits<size_t>::max();
  };

  // Gives itself back when it is destroyed, which must not be inside
  // GpuRuntime::CallHost().
  class Buffer {
   public:
    Buffer(std::shared_ptr<PinnedPool> pool, OwnedPinnedMemory memory,
           size_t size_bytes)
        : pool_(std::move(pool)),
          memory_(std::move(memory)),
          size_bytes_(size_bytes) {}
    Buffer(Buffer&& other) noexcept = default;
    Buffer& operator=(Buffer&& other) = delete;
    ~Buffer() {
      if (pool_ != nullptr) pool_->GiveBack(std::move(memory_), size_bytes_);
    }

    // The processor must not touch what is on a GPU.
    std::byte* data() const {
      return static_cast<std::byte*>(memory_.get().data);
    }

    // Instead of giving it back, where a GPU may still come to a copy or a
    // kernel that uses it: lost until the process ends.
    void Abandon() {
      memory_.Abandon();
      pool_ = nullptr;
    }

    // At least what was asked for.
    size_t size_bytes() const { return size_bytes_; }

   private:
    std::shared_ptr<PinnedPool> pool_;  // Null: there is nothing to give back.
    OwnedPinnedMemory memory_;
    size_t size_bytes_;
  };

  // Errors: INVALID_ARGUMENT without a runtime.
  static absl::StatusOr<std::shared_ptr<PinnedPool>> Create(Options options);

  // A buffer of at least `num_bytes`. Errors: as GpuRuntime::AllocatePinned or
  // AllocatePinnedOnGpu, once what lies here unused was freed in vain;
  // RESOURCE_EXHAUSTED past Options::most_bytes, or half of what memory could
  // ever hold.
  absl::StatusOr<Buffer> Take(size_t num_bytes) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Kept {
    std::vector<OwnedPinnedMemory> buffers;
    uint64_t last_use = 0;  // Of num_uses_.
  };
  using BySize = std::map<size_t, Kept>;

  explicit PinnedPool(Options options) : options_(options) {}

  // Counts what is given out; false: that would be more than may be.
  bool Count(size_t size_bytes) ABSL_LOCKS_EXCLUDED(mu_);
  void Uncount(size_t size_bytes) ABSL_LOCKS_EXCLUDED(mu_);

  // Nothing if there is none.
  OwnedPinnedMemory TakeKept(size_t size_bytes) ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<OwnedPinnedMemory> Make(size_t size_bytes);
  BySize TakeAllKept() ABSL_LOCKS_EXCLUDED(mu_);
  void GiveBack(OwnedPinnedMemory memory, size_t size_bytes)
      ABSL_LOCKS_EXCLUDED(mu_);

  // One of the size used longest ago. REQUIRES: there is one.
  OwnedPinnedMemory Evict() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;

  Mutex mu_;
  BySize kept_ ABSL_GUARDED_BY(mu_);
  size_t kept_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  size_t given_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t num_uses_ ABSL_GUARDED_BY(mu_) = 0;  // Takings and returns.
};

}  // namespace tutti

#endif  // TUTTI_GPU_RUNTIME_PINNED_POOL_H_
