#include "implementations/local/local_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tutti/reduction.h"

namespace tutti {

LocalExchange::LocalExchange(absl::Span<const Attendee> members)
    : LocalPass(members) {}

void LocalExchange::Append(Move move, int64_t num_bytes) {
  if (move.from == move.to) return;  // In place: nothing to copy.
  AppendCycle({&move, 1}, num_bytes);
}

void LocalExchange::AppendCycle(absl::Span<const Move> cycle,
                                int64_t num_bytes) {
  if (num_bytes == 0) return;
  cycles_.push_back({moves_.size(), cycle.size(), num_bytes_});
  moves_.insert(moves_.end(), cycle.begin(), cycle.end());
  num_bytes_ += num_bytes;
}

absl::Status LocalExchange::Run(ByteRange slice) const {
  if (cycles_.empty()) return absl::OkStatus();
  const auto after = std::upper_bound(
      cycles_.begin(), cycles_.end(), slice.begin,
      [](int64_t at, const Cycle& cycle) { return at < cycle.begin; });
  for (auto cycle = after - 1; cycle != cycles_.end(); ++cycle) {
    const int64_t cycle_end =
        cycle + 1 == cycles_.end() ? num_bytes_ : (cycle + 1)->begin;
    const int64_t end = std::min(slice.end, cycle_end);
    Copy(*cycle, {slice.begin - cycle->begin, end - cycle->begin});
    slice.begin = end;
    if (end == slice.end) break;
  }
  return absl::OkStatus();
}

// Saves bytes of a cycle before it overwrites them, a tile at a time.
void LocalExchange::Copy(const Cycle& cycle, ByteRange range) const {
  const absl::Span<const Move> moves(&moves_[cycle.first], cycle.size);
  if (cycle.size == 1) {
    uint8_t* const to = moves[0].to + range.begin;
    const absl::Span<uint8_t* const> one(&to, 1), none;
    CopyToMany(moves[0].from + range.begin, streams() ? none : one,
               streams() ? one : none,
               static_cast<size_t>(range.end - range.begin));
    return;
  }
  uint8_t tiles[2][kTileBytes];
  for (int64_t begin = range.begin; begin < range.end; begin += kTileBytes) {
    const auto size =
        static_cast<size_t>(std::min(kTileBytes, range.end - begin));
    uint8_t* at_hand = tiles[0];
    uint8_t* saved = tiles[1];
    std::memcpy(at_hand, moves[0].from + begin, size);
    for (size_t i = 0; i < moves.size(); ++i) {
      if (i + 1 < moves.size()) {
        std::memcpy(saved, moves[i + 1].from + begin, size);
      }
      std::memcpy(moves[i].to + begin, at_hand, size);
      std::swap(at_hand, saved);
    }
  }
}

}  // namespace tutti
