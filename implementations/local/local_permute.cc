#include <utility>

#include "absl/container/inlined_vector.h"
#include "framework/tensor/local_buffers.h"
#include "implementations/local/local_exchange.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

// Copies every input straight to its target output. If a member runs in place,
// its cycle of the permutation is shifted a tile at a time.
class Permutation : public LocalExchange {
 public:
  explicit Permutation(absl::Span<const Attendee> members)
      : LocalExchange(members) {
    absl::InlinedVector<bool, kInlineBlocks> is_done(
        static_cast<size_t>(group_size()));
    for (int rank = 0; rank < group_size(); ++rank) {
      if (!is_done[static_cast<size_t>(rank)]) AppendCycleOf(rank, &is_done);
    }
  }

 private:
  void AppendCycleOf(int rank,
                     absl::InlinedVector<bool, kInlineBlocks>* is_done) {
    const int64_t size = instance().shape.num_elements() * element_bytes();
    absl::InlinedVector<Move, kInlineBlocks> moves;
    bool overwrites = false;
    while (!(*is_done)[static_cast<size_t>(rank)]) {
      (*is_done)[static_cast<size_t>(rank)] = true;
      const int to = instance().permutation[static_cast<size_t>(rank)];
      moves.push_back({input(rank), output(to)});
      overwrites |= in_place(rank);
      rank = to;
    }
    if (overwrites && moves.size() > 1) return AppendCycle(moves, size);
    for (const Move& move : moves) Append(move, size);
  }
};

REGISTER_COLLECTIVE(LocalPermute,
                    Implemented<LocalImplementation<Permutation>>(
                        LocalTraits("copies every input straight to its output",
                                    {CollectiveType::kPermute})));

}  // namespace
}  // namespace tutti
