#include "schedule/engine/scratch_pool.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

namespace tutti {
namespace {

size_t TotalBytes(const std::vector<Tensor>& tensors) {
  size_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.size_bytes();
  return bytes;
}

}  // namespace

absl::StatusOr<Tensor> ScratchPool::Take(int rank, Device& device,
                                         size_t num_bytes) {
  {
    MutexLock lock(&mu_);
    std::vector<Tensor>& kept = kept_[rank];
    const auto found =
        std::find_if(kept.rbegin(), kept.rend(), [&](const Tensor& tensor) {
          return tensor.size_bytes() >= num_bytes &&
                 tensor.size_bytes() / 2 <= num_bytes;
        });
    if (found != kept.rend()) {
      Tensor taken = std::move(*found);
      kept.erase(std::next(found).base());
      return taken;
    }
  }
  return device.Allocate(DType::kUint8,
                         TensorShape::Vector(static_cast<int64_t>(num_bytes)));
}

void ScratchPool::Give(int rank, Tensor scratch) {
  if (scratch.size_bytes() > kMostKeptBytes) return;
  std::vector<Tensor> dropped;  // Freed without the lock.
  MutexLock lock(&mu_);
  std::vector<Tensor>& kept = kept_[rank];
  kept.push_back(std::move(scratch));
  while (kept.size() > kMostKept || TotalBytes(kept) > kMostKeptBytes) {
    dropped.push_back(std::move(kept.front()));
    kept.erase(kept.begin());
  }
}

}  // namespace tutti
