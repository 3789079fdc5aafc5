#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "framework/tensor/local_buffers.h"
#include "implementations/local/local_exchange.h"
#include "tutti/implementation.h"
#include "tutti/params.h"

namespace tutti {
namespace {

// Copies every block straight from its input to its output. If a member runs in
// place, it swaps blocks with each other member, a tile at a time.
//
// Blocks of one size are found by arithmetic: the pass transposes a matrix of
// blocks, with the senders as its rows. It goes through the matrix by bands of
// receivers, wide enough that a sender's blocks in a band fill a cache line.
// Blocks of different sizes are listed.
class Exchange : public LocalExchange {
 public:
  explicit Exchange(absl::Span<const Attendee> members)
      : LocalExchange(members) {
    for (int rank = 0; rank < group_size(); ++rank) {
      inputs_.push_back(input(rank));
      outputs_.push_back(output(rank));
      has_in_place_ = has_in_place_ || in_place(rank);
    }
    if (!instance().rows.empty()) {
      ListBlocks();
      return;
    }
    block_bytes_ = BlockRows(instance(), group_size(), 0, 0) * RowBytes();
    if (block_bytes_ == 0) return;
    band_ = std::clamp<int64_t>(kBandBytes / block_bytes_, 1, group_size());
  }

 private:
  struct Block {
    Move move;
    int64_t num_bytes = 0;
  };
  using BlockList = absl::InlinedVector<Block, kInlineBlocks>;

  static constexpr int64_t kBandBytes = 64;

  int64_t RowBytes() const {
    return RowElements(instance().shape) * element_bytes();
  }

  int64_t num_bytes() const override {
    if (block_bytes_ == 0) return LocalExchange::num_bytes();
    return block_bytes_ * group_size() * group_size();
  }

  absl::Status Run(ByteRange slice) const override {
    if (block_bytes_ == 0) return LocalExchange::Run(slice);
    const int64_t size = group_size();
    const int64_t band_bytes = band_ * size * block_bytes_;
    while (slice.begin < slice.end) {
      const int64_t first = slice.begin / band_bytes * band_;
      const int64_t begin = first * size * block_bytes_;
      const int64_t end = std::min(begin + band_bytes, slice.end);
      CopyBand(first, std::min(band_, size - first),
               {slice.begin - begin, end - begin});
      slice.begin = end;
    }
    return absl::OkStatus();
  }

  // Copies a range of the bytes for the receivers [first, first + width), which
  // lie in the order of senders, then of receivers.
  void CopyBand(int64_t first, int64_t width, ByteRange range) const {
    int64_t from = range.begin / block_bytes_ / width;
    int64_t to = range.begin / block_bytes_ % width;
    int64_t skipped = range.begin % block_bytes_;
    for (int64_t left = range.size(); left > 0; ++from, to = 0) {
      for (; to < width && left > 0; ++to, skipped = 0) {
        const int64_t end = std::min(block_bytes_, skipped + left);
        CopyBlock(static_cast<size_t>(from), static_cast<size_t>(first + to),
                  {skipped, end});
        left -= end - skipped;
      }
    }
  }

  // Copies a range of a block. Where one of the two members runs in place, the
  // lower one's block stands for both of the pair.
  void CopyBlock(size_t from, size_t to, ByteRange range) const {
    const Move there = MoveOf(from, to);
    const bool overwrites = has_in_place_ && (inputs_[from] == outputs_[from] ||
                                              inputs_[to] == outputs_[to]);
    if (!overwrites) {
      Copy({there.from + range.begin, there.to + range.begin}, range.size());
    } else if (from < to) {
      CopyCycle({there, MoveOf(to, from)}, range);
    }
  }

  Move MoveOf(size_t from, size_t to) const {
    return {inputs_[from] + static_cast<int64_t>(to) * block_bytes_,
            outputs_[to] + static_cast<int64_t>(from) * block_bytes_};
  }

  void ListBlocks() {
    const BlockList blocks = Blocks();
    const auto block = [&](int from, int to) -> const Block& {
      return blocks[static_cast<size_t>(from) *
                        static_cast<size_t>(group_size()) +
                    static_cast<size_t>(to)];
    };
    for (int rank = 0; rank < group_size(); ++rank) {
      Append(block(rank, rank).move, block(rank, rank).num_bytes);
      for (int peer = 0; peer < rank; ++peer) {
        const bool overwrites = in_place(rank) || in_place(peer);
        AppendPair(block(rank, peer), block(peer, rank), overwrites);
      }
    }
  }

  // Returns blocks by sender, then by receiver. Input blocks lie in the order
  // of receivers, output blocks in the order of senders.
  BlockList Blocks() const {
    const int64_t row_bytes = RowBytes();
    BlockList blocks;
    absl::InlinedVector<int64_t, kInlineMembers> received(
        static_cast<size_t>(group_size()));
    for (int from = 0; from < group_size(); ++from) {
      // The sender knows its rows, whoever else does.
      const CollInstanceParams& known = *params(from).instance;
      int64_t sent = 0;
      for (int to = 0; to < group_size(); ++to) {
        const int64_t size =
            BlockRows(known, group_size(), from, to) * row_bytes;
        int64_t& begin = received[static_cast<size_t>(to)];
        blocks.push_back({{inputs_[static_cast<size_t>(from)] + sent,
                           outputs_[static_cast<size_t>(to)] + begin},
                          size});
        sent += size;
        begin += size;
      }
    }
    return blocks;
  }

  // Appends both blocks of a pair. A member in place sends every other member
  // as much as it receives. Different sizes mean only that an empty tensor has
  // the address of the other tensor.
  void AppendPair(const Block& there, const Block& back, bool overwrites) {
    if (overwrites && there.num_bytes == back.num_bytes) {
      return AppendCycle({there.move, back.move}, there.num_bytes);
    }
    Append(there.move, there.num_bytes);
    Append(back.move, back.num_bytes);
  }

  Pointers<const uint8_t> inputs_;
  Pointers<uint8_t> outputs_;
  bool has_in_place_ = false;
  int64_t block_bytes_ = 0;  // 0: the blocks are listed, or empty.
  int64_t band_ = 1;         // Receivers of a band.
};

ImplementationTraits Traits() {
  ImplementationTraits traits = LocalTraits(
      "copies every block straight to its output", {CollectiveType::kAllToAll});
  traits.supports_uneven = true;
  traits.supports_recv_rows = true;
  return traits;
}

REGISTER_COLLECTIVE(LocalAllToAll,
                    Implemented<LocalImplementation<Exchange>>(Traits()));

}  // namespace
}  // namespace tutti
