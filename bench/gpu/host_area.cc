#include "bench/gpu/host_area.h"

#include <algorithm>
#include <utility>

namespace tutti {

absl::StatusOr<uint8_t*> HostArea::Take(size_t num_bytes) {
  while (block_ < blocks_.size() &&
         blocks_[block_].num_bytes - taken_ < num_bytes) {
    ++block_;
    taken_ = 0;
  }
  if (block_ == blocks_.size()) {
    const size_t size = std::max(block_bytes_, num_bytes);
    absl::StatusOr<OwnedPinnedMemory> memory =
        NewPinnedMemory(runtime_, size, /*gpu=*/0);
    if (!memory.ok()) return memory.status();
    blocks_.push_back({.memory = *std::move(memory), .num_bytes = size});
  }
  uint8_t* const piece =
      static_cast<uint8_t*>(blocks_[block_].memory.get().data) + taken_;
  taken_ += num_bytes;
  return piece;
}

void HostArea::Clear() {
  block_ = 0;
  taken_ = 0;
}

}  // namespace tutti
