#include "implementations/local_fan_out.h"

#include <algorithm>
#include <utility>

#include "framework/reduction.h"

namespace tutti {

LocalFanOut::LocalFanOut(absl::Span<const Attendee> members)
    : LocalPass(members) {}

void LocalFanOut::Append(int rank, int64_t num_bytes) {
  if (num_bytes == 0) return;
  blocks_.push_back({rank, num_bytes_});
  num_bytes_ += num_bytes;
}

absl::Status LocalFanOut::Run(ByteRange slice) const {
  if (blocks_.empty()) return absl::OkStatus();
  const auto after = std::upper_bound(
      blocks_.begin(), blocks_.end(), slice.begin,
      [](int64_t at, const Block& block) { return at < block.begin; });
  for (auto block = after - 1; block != blocks_.end(); ++block) {
    const int64_t block_end =
        block + 1 == blocks_.end() ? num_bytes_ : (block + 1)->begin;
    const int64_t end = std::min(slice.end, block_end);
    Copy(*block, {slice.begin, end});
    slice.begin = end;
    if (end == slice.end) break;
  }
  return absl::OkStatus();
}

void LocalFanOut::Copy(const Block& block, ByteRange range) const {
  const uint8_t* const from = input(block.rank) + (range.begin - block.begin);
  Pointers<uint8_t> to;
  for (int rank = 0; rank < group_size(); ++rank) {
    if (output(rank) == nullptr) continue;
    uint8_t* const at = output(rank) + range.begin;
    if (at != from) to.push_back(at);  // In place, it is there already.
  }
  const absl::Span<uint8_t* const> all(to), none;
  CopyToMany(from, streams() ? none : all, streams() ? all : none,
             static_cast<size_t>(range.end - range.begin));
}

}  // namespace tutti
