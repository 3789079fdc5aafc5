#include "implementations/local/local_fan_out.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "tutti/reduction.h"

namespace tutti {
namespace {

// Block size up to which the call of a copy costs more than its bytes; each
// block needs a copy for each output. Gathered blocks of 4 bytes take half the
// time with 64 members and a tenth with 512. Blocks of 512 bytes gain nothing
// (EPYC, November 2026).
constexpr int64_t kSmallBytes = 256;

// Bytes gathered before they are copied together: they stay in the first-level
// cache beside a block and an output.
constexpr int64_t kMostTogetherBytes = 4096;

}  // namespace

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
  std::array<uint8_t, kMostTogetherBytes> together;
  ByteRange held = {slice.begin, slice.begin};  // Range in `together`.
  const auto copy_held = [&] {
    if (held.size() > 0) Copy(together.data(), held);
  };
  for (auto block = after - 1; slice.begin < slice.end; ++block) {
    const int64_t block_end =
        block + 1 == blocks_.end() ? num_bytes_ : (block + 1)->begin;
    const ByteRange range = {slice.begin, std::min(slice.end, block_end)};
    const uint8_t* const from =
        input(block->rank) + (range.begin - block->begin);
    slice.begin = range.end;
    const bool is_small = range.size() <= kSmallBytes && blocks_.size() > 1;
    if (!is_small || held.size() + range.size() > kMostTogetherBytes) {
      copy_held();
      held = {range.begin, range.begin};
    }
    if (is_small) {
      std::memcpy(&together[static_cast<size_t>(held.size())], from,
                  static_cast<size_t>(range.size()));
      held.end = range.end;
    } else {
      Copy(from, range);
      held = {range.end, range.end};
    }
  }
  copy_held();
  return absl::OkStatus();
}

void LocalFanOut::Copy(const uint8_t* from, ByteRange range) const {
  Pointers<uint8_t> to;
  for (int rank = 0; rank < group_size(); ++rank) {
    if (output(rank) == nullptr) continue;
    uint8_t* const at = output(rank) + range.begin;
    if (at != from) to.push_back(at);  // In place: nothing to copy.
  }
  const absl::Span<uint8_t* const> all(to), none;
  CopyToMany(from, streams() ? none : all, streams() ? all : none,
             static_cast<size_t>(range.end - range.begin));
}

}  // namespace tutti
