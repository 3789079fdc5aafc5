#include "gpu/pinned_pool.h"

#include "absl/strings/str_cat.h"

namespace tutti {

absl::StatusOr<std::shared_ptr<PinnedPool>> PinnedPool::Create(
    Options options) {
  if (options.runtime == nullptr) {
    return absl::InvalidArgumentError(
        "a pool of pinned memory needs a runtime");
  }
  if (options.buffer_bytes < 1 || options.max_buffers < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a pool of pinned memory needs at least one buffer of one byte, not ",
        options.max_buffers, " of ", options.buffer_bytes));
  }
  // The constructor is private.
  return std::shared_ptr<PinnedPool>(new PinnedPool(options));
}

void PinnedPool::Take(Callback callback) {
  if (QueueOrMayMake(callback)) return Make(std::move(callback));
  Serve();
}

bool PinnedPool::QueueOrMayMake(Callback& callback) {
  MutexLock lock(&mu_);
  if (free_.empty() && num_made_ < options_.max_buffers) {
    ++num_made_;
    return true;
  }
  waiting_.push_back(std::move(callback));
  return false;
}

// Where none can be made, one that others hold will come. If there is no other,
// those who wait are told too.
void PinnedPool::Make(Callback callback) {
  absl::StatusOr<OwnedPinnedMemory> memory =
      NewPinnedMemory(*options_.runtime, options_.buffer_bytes);
  if (memory.ok()) {
    std::move(callback)(Buffer(shared_from_this(), *std::move(memory)));
    return;
  }
  std::deque<Callback> failed;
  {
    MutexLock lock(&mu_);
    waiting_.push_front(std::move(callback));
    if (--num_made_ == 0) failed.swap(waiting_);
  }
  Serve();
  for (Callback& other : failed) std::move(other)(memory.status());
}

void PinnedPool::GiveBack(OwnedPinnedMemory memory) {
  {
    MutexLock lock(&mu_);
    free_.push_back(std::move(memory));
  }
  Serve();
}

void PinnedPool::Serve() {
  {
    MutexLock lock(&mu_);
    if (is_serving_) return;
    is_serving_ = true;
  }
  while (true) {
    Callback callback;
    OwnedPinnedMemory memory;
    {
      MutexLock lock(&mu_);
      if (free_.empty() || waiting_.empty()) {
        is_serving_ = false;
        return;
      }
      memory = std::move(free_.back());
      free_.pop_back();
      callback = std::move(waiting_.front());
      waiting_.pop_front();
    }
    std::move(callback)(Buffer(shared_from_this(), std::move(memory)));
  }
}

}  // namespace tutti
