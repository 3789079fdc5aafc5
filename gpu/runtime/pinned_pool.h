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

// Pinned memory for bytes in transit: host memory for peers that cannot reach a
// GPU's memory, or memory of the GPU for peers that can. Take() makes a buffer
// if none of its size is kept, which may wait for the GPUs. Take() never waits
// for another buffer: the buffer's user may itself wait for other users, in
// this process or another.
//
// A returned buffer is kept if there is room for it. Room is made by freeing
// buffers of the sizes used longest ago. A size is used when a buffer of it is
// taken or returned.
//
// Thread-safe. The runtime outlives the pool.
class PinnedPool : public std::enable_shared_from_this<PinnedPool> {
 public:
  struct Options {
    GpuRuntime* runtime = nullptr;
    int gpu = 0;             // Only a fault of this GPU stops allocations.
    bool is_on_gpu = false;  // GPU memory; else host memory.

    // Bound on unused bytes kept here. More is freed. Freeing may wait for the
    // GPUs and delays only the thread that returns the buffer.
    size_t kept_bytes = size_t{256} << 20;

    // Bound on the bytes in use at a time, including abandoned buffers.
    size_t most_bytes = std::numeric_limits<size_t>::max();
  };

  // Returns itself to the pool when destroyed. The destructor must not run
  // inside GpuRuntime::CallHost().
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

    // The processor must not touch GPU memory.
    std::byte* data() const {
      return static_cast<std::byte*>(memory_.get().data);
    }

    // Leaks the memory until the process ends, instead of returning it. Call
    // this if a GPU may still run a copy or a kernel that uses the buffer.
    void Abandon() {
      memory_.Abandon();
      pool_ = nullptr;
    }

    // At least the requested size.
    size_t size_bytes() const { return size_bytes_; }

   private:
    std::shared_ptr<PinnedPool> pool_;  // Null: nothing to return.
    OwnedPinnedMemory memory_;
    size_t size_bytes_;
  };

  // Errors: INVALID_ARGUMENT without a runtime.
  static absl::StatusOr<std::shared_ptr<PinnedPool>> Create(Options options);

  // Takes a buffer of at least `num_bytes`. Errors: as
  // GpuRuntime::AllocatePinned or AllocatePinnedOnGpu, if freeing all kept
  // buffers does not help; RESOURCE_EXHAUSTED beyond Options::most_bytes, or
  // beyond half of all possible memory.
  absl::StatusOr<Buffer> Take(size_t num_bytes) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Kept {
    std::vector<OwnedPinnedMemory> buffers;
    uint64_t last_use = 0;  // A value of num_uses_.
  };
  using BySize = std::map<size_t, Kept>;

  explicit PinnedPool(Options options) : options_(options) {}

  // Counts bytes in use. Returns false if they would exceed the bound.
  bool Count(size_t size_bytes) ABSL_LOCKS_EXCLUDED(mu_);
  void Uncount(size_t size_bytes) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns no memory if none is kept.
  OwnedPinnedMemory TakeKept(size_t size_bytes) ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<OwnedPinnedMemory> Make(size_t size_bytes);
  BySize TakeAllKept() ABSL_LOCKS_EXCLUDED(mu_);
  void GiveBack(OwnedPinnedMemory memory, size_t size_bytes)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Takes a buffer of the size used longest ago. REQUIRES: a buffer is kept.
  OwnedPinnedMemory Evict() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;

  Mutex mu_;
  BySize kept_ ABSL_GUARDED_BY(mu_);
  size_t kept_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  size_t given_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t num_uses_ ABSL_GUARDED_BY(mu_) = 0;  // Takes and returns.
};

}  // namespace tutti

#endif  // TUTTI_GPU_RUNTIME_PINNED_POOL_H_
