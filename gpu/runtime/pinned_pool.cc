#include "gpu/runtime/pinned_pool.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

// A page: pinned memory is never smaller.
constexpr size_t kSmallestBytes = 4096;

constexpr size_t kLargestBytes = std::numeric_limits<size_t>::max() / 2 + 1;

// Rounds up to one of a few sizes: later requests then find a kept buffer.
// Large sizes lose little.
size_t RoundedUp(size_t num_bytes) {
  constexpr size_t kStep = size_t{1} << 20;
  if (num_bytes > kStep) return (num_bytes + kStep - 1) / kStep * kStep;
  return std::bit_ceil(std::max(num_bytes, kSmallestBytes));
}

}  // namespace

absl::StatusOr<std::shared_ptr<PinnedPool>> PinnedPool::Create(
    Options options) {
  if (options.runtime == nullptr) {
    return absl::InvalidArgumentError(
        "a pool of pinned memory needs a runtime");
  }
  // The constructor is private.
  return std::shared_ptr<PinnedPool>(new PinnedPool(options));
}

absl::StatusOr<PinnedPool::Buffer> PinnedPool::Take(size_t num_bytes) {
  if (num_bytes > kLargestBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory has ", num_bytes, " bytes to pin"));
  }
  const size_t size_bytes = RoundedUp(num_bytes);
  if (!Count(size_bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a buffer of ", size_bytes, " bytes is more than what is left of ",
        options_.most_bytes, " bytes of pinned memory"));
  }
  OwnedPinnedMemory kept = TakeKept(size_bytes);
  if (kept) return Buffer(shared_from_this(), std::move(kept), size_bytes);
  absl::StatusOr<OwnedPinnedMemory> made = Make(size_bytes);
  if (absl::IsResourceExhausted(made.status())) {
    TakeAllKept();
    made = Make(size_bytes);
  }
  if (!made.ok()) {
    Uncount(size_bytes);
    return made.status();
  }
  return Buffer(shared_from_this(), *std::move(made), size_bytes);
}

absl::StatusOr<OwnedPinnedMemory> PinnedPool::Make(size_t size_bytes) {
  const auto make =
      options_.is_on_gpu ? &NewPinnedMemoryOnGpu : &NewPinnedMemory;
  return make(*options_.runtime, size_bytes, options_.gpu);
}

bool PinnedPool::Count(size_t size_bytes) {
  MutexLock lock(&mu_);
  if (size_bytes > options_.most_bytes - given_bytes_) return false;
  given_bytes_ += size_bytes;
  return true;
}

void PinnedPool::Uncount(size_t size_bytes) {
  MutexLock lock(&mu_);
  given_bytes_ -= size_bytes;
}

OwnedPinnedMemory PinnedPool::TakeKept(size_t size_bytes) {
  MutexLock lock(&mu_);
  const auto found = kept_.find(size_bytes);
  if (found == kept_.end()) return {};
  Kept& kept = found->second;
  kept.last_use = ++num_uses_;
  if (kept.buffers.empty()) return {};
  OwnedPinnedMemory memory = std::move(kept.buffers.back());
  kept.buffers.pop_back();
  kept_bytes_ -= size_bytes;
  return memory;
}

PinnedPool::BySize PinnedPool::TakeAllKept() {
  MutexLock lock(&mu_);
  kept_bytes_ = 0;
  return std::exchange(kept_, {});
}

void PinnedPool::GiveBack(OwnedPinnedMemory memory, size_t size_bytes) {
  std::vector<OwnedPinnedMemory> evicted;  // Freed without the lock.
  MutexLock lock(&mu_);
  given_bytes_ -= size_bytes;
  if (size_bytes > options_.kept_bytes) return;
  Kept& same = kept_[size_bytes];
  same.last_use = ++num_uses_;
  const size_t same_bytes = same.buffers.size() * size_bytes;
  if (size_bytes > options_.kept_bytes - same_bytes) return;
  // Buffers of the same size are the most recently used. They fit, and stay.
  while (size_bytes > options_.kept_bytes - kept_bytes_) {
    evicted.push_back(Evict());
  }
  kept_bytes_ += size_bytes;
  same.buffers.push_back(std::move(memory));
}

OwnedPinnedMemory PinnedPool::Evict() {
  auto oldest = kept_.end();
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    if (it->second.buffers.empty()) continue;
    const bool is_older =
        oldest == kept_.end() || it->second.last_use < oldest->second.last_use;
    if (is_older) oldest = it;
  }
  OwnedPinnedMemory memory = std::move(oldest->second.buffers.back());
  oldest->second.buffers.pop_back();
  kept_bytes_ -= oldest->first;
  return memory;
}

}  // namespace tutti
