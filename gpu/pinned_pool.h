#ifndef TUTTI_GPU_PINNED_POOL_H_
#define TUTTI_GPU_PINNED_POOL_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/mutex.h"
#include "gpu/gpu_runtime.h"

namespace tutti {

// Buffers of pinned host memory, all of one size, on the way between GPUs and
// what cannot reach their memory. There are never more than so many: who finds
// none waits for one that is given back. They are made when they are first
// needed, which may wait for the GPUs, and kept until the pool and the last
// buffer are gone. Where no more can be made, who finds none waits as well.
//
// Thread-safe. The runtime outlives it.
class PinnedPool : public std::enable_shared_from_this<PinnedPool> {
 public:
  struct Options {
    GpuRuntime* runtime = nullptr;
    size_t buffer_bytes = size_t{4} << 20;
    int max_buffers = 16;
  };

  // Gives itself back when it is destroyed, which must not be inside
  // GpuRuntime::CallHost(): who waits for it may call the runtime.
  class Buffer {
   public:
    Buffer(std::shared_ptr<PinnedPool> pool, OwnedPinnedMemory memory)
        : pool_(std::move(pool)), memory_(std::move(memory)) {}
    Buffer(Buffer&& other) noexcept = default;
    Buffer& operator=(Buffer&& other) = delete;
    ~Buffer() {
      if (pool_ != nullptr) pool_->GiveBack(std::move(memory_));
    }

    std::byte* data() const { return static_cast<std::byte*>(memory_.get()); }
    size_t size_bytes() const { return pool_->options_.buffer_bytes; }

   private:
    std::shared_ptr<PinnedPool> pool_;  // Null once moved from.
    OwnedPinnedMemory memory_;
  };
  using Callback = absl::AnyInvocable<void(absl::StatusOr<Buffer>) &&>;

  // Errors: INVALID_ARGUMENT without a runtime or for a size below one.
  static absl::StatusOr<std::shared_ptr<PinnedPool>> Create(Options options);

  // Calls `callback` with a buffer: inside the call, or where another buffer is
  // given back; those who wait in the order in which they came, and with no
  // lock held. Errors, passed to it: as GpuRuntime::AllocatePinned,
  // where no buffer could be made so far.
  void Take(Callback callback) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  explicit PinnedPool(Options options) : options_(options) {}

  // True if the caller is to make one for `callback`; else it waits.
  bool QueueOrMayMake(Callback& callback) ABSL_LOCKS_EXCLUDED(mu_);

  // Makes a buffer for `callback`.
  void Make(Callback callback) ABSL_LOCKS_EXCLUDED(mu_);
  void GiveBack(OwnedPinnedMemory memory) ABSL_LOCKS_EXCLUDED(mu_);

  // Hands what is free to those who wait.
  void Serve() ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;

  Mutex mu_;
  int num_made_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<OwnedPinnedMemory> free_ ABSL_GUARDED_BY(mu_);
  std::deque<Callback> waiting_ ABSL_GUARDED_BY(mu_);

  // Whether a thread is in Serve(): it will see what is free and who waits.
  bool is_serving_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tutti

#endif  // TUTTI_GPU_PINNED_POOL_H_
