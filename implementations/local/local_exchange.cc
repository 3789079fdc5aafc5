#include "implementations/local/local_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tutti/reduction.h"

namespace tutti {

namespace {

// Blocks below this size are copied by one call, and through the caches.
constexpr int64_t kSmallBytes = 1024;

}  // namespace

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
    CopyCycle({&moves_[cycle->first], cycle->size},
              {slice.begin - cycle->begin, end - cycle->begin});
    slice.begin = end;
    if (end == slice.end) break;
  }
  return absl::OkStatus();
}

void LocalExchange::Copy(Move move, int64_t num_bytes) const {
  const auto size = static_cast<size_t>(num_bytes);
  if (num_bytes < kSmallBytes) {
    std::memcpy(move.to, move.from, size);
    return;
  }
  const absl::Span<uint8_t* const> one(&move.to, 1), none;
  CopyToMany(move.from, streams() ? none : one, streams() ? one : none, size);
}

// Saves bytes of a cycle before it overwrites them, a tile at a time.
void LocalExchange::CopyCycle(absl::Span<const Move> moves,
                              ByteRange range) const {
  if (moves.size() == 1) {
    return Copy({moves[0].from + range.begin, moves[0].to + range.begin},
                range.size());
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
