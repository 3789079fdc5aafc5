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

  // Returns blocks by sender, then by receiver. Input blocks lie in the order
  // of receivers, output blocks in the order of senders.
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
