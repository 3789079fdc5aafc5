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

// Every block straight from its input to its output. Where a member runs in
// place, what it and another one send each other is swapped a tile at a time.
class Exchange : public LocalExchange {
 public:
  explicit Exchange(absl::Span<const Attendee> members)
      : LocalExchange(members) {
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

 private:
  struct Block {
    Move move;
    int64_t num_bytes = 0;
  };
  using BlockList = absl::InlinedVector<Block, kInlineBlocks>;

  // By sender, then receiver. Input blocks lie in the order of who gets them,
  // output blocks in that of whom they come from.
  BlockList Blocks() const {
    const int64_t row_bytes = RowElements(instance().shape) * element_bytes();
    BlockList blocks;
    absl::InlinedVector<int64_t, kInlineMembers> received(
        static_cast<size_t>(group_size()));
    for (int from = 0; from < group_size(); ++from) {
      int64_t sent = 0;
      for (int to = 0; to < group_size(); ++to) {
        const int64_t size =
            BlockRows(instance(), group_size(), from, to) * row_bytes;
        int64_t& begin = received[static_cast<size_t>(to)];
        blocks.push_back({{input(from) + sent, output(to) + begin}, size});
        sent += size;
        begin += size;
      }
    }
    return blocks;
  }

  // A member that runs in place sends each other as much as it receives. One
  // that only has an empty tensor at the address of the other does not.
  void AppendPair(const Block& there, const Block& back, bool overwrites) {
    if (overwrites && there.num_bytes == back.num_bytes) {
      return AppendCycle({there.move, back.move}, there.num_bytes);
    }
    Append(there.move, there.num_bytes);
    Append(back.move, back.num_bytes);
  }
};

ImplementationTraits Traits() {
  ImplementationTraits traits = LocalTraits(
      "copies every block straight to its output", {CollectiveType::kAllToAll});
  traits.supports_uneven = true;
  return traits;
}

REGISTER_COLLECTIVE(LocalAllToAll,
                    Implemented<LocalImplementation<Exchange>>(Traits()));

}  // namespace
}  // namespace tutti
