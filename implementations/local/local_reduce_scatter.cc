#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "framework/base/status_macros.h"
#include "framework/tensor/local_buffers.h"
#include "implementations/local/local_pass.h"
#include "tutti/implementation.h"
#include "tutti/reduction.h"

namespace tutti {
namespace {

// Makes one pass over memory, as LocalReduce, but each rank's block has one
// output:
//
//   inputs    a0 a1 a2   b0 b1 b2   c0 c1 c2     each is read once
//   outputs   (a0 + b0) + c0   (a1 + b1) + c1   (a2 + b2) + c2
//
// n members with outputs of S bytes read n n S bytes and write n S.
class ReduceScatter : public LocalPass {
 public:
  explicit ReduceScatter(absl::Span<const Attendee> members)
      : LocalPass(members) {
    const int64_t row_bytes = RowElements(instance().shape) * element_bytes();
    int64_t end = 0;
    for (int rank = 0; rank < group_size(); ++rank) {
      inputs_.push_back(input(rank));
      end += BlockRows(instance(), group_size(), rank, rank) * row_bytes;
      block_ends_.push_back(end);
    }
  }

 private:
  // Size of an input.
  int64_t num_bytes() const override { return block_ends_.back(); }

  absl::Status Run(ByteRange slice) const override {
    const auto first =
        std::upper_bound(block_ends_.begin(), block_ends_.end(), slice.begin);
    for (auto block = first; slice.begin < slice.end; ++block) {
      const int64_t end = std::min(slice.end, *block);
      if (end == slice.begin) continue;  // An empty block.
      RETURN_IF_ERROR(FoldBlock(static_cast<int>(block - block_ends_.begin()),
                                {slice.begin, end}));
      slice.begin = end;
    }
    return absl::OkStatus();
  }

  // Folds a range of the inputs that lies within the rank's block.
  absl::Status FoldBlock(int rank, ByteRange range) const {
    const int64_t block_begin =
        rank == 0 ? 0 : block_ends_[static_cast<size_t>(rank) - 1];
    uint8_t* const to = output(rank) + (range.begin - block_begin);
    // In place, the line was just read and is in the caches.
    const bool is_near = !streams() || to == input(rank) + range.begin;
    const absl::Span<uint8_t* const> one(&to, 1), none;
    return Fold(instance().dtype, instance().merge_op, instance().final_op,
                {.inputs = At<const uint8_t>(inputs_, range.begin),
                 .outputs = is_near ? one : none,
                 .streamed = is_near ? none : one,
                 .num_bytes = range.end - range.begin});
  }

  absl::InlinedVector<int64_t, kInlineMembers> block_ends_;  // In the line.
  Pointers<const uint8_t> inputs_;
};

ImplementationTraits Traits() {
  ImplementationTraits traits = LocalTraits(
      "one pass over memory, in rank order", {CollectiveType::kReduceScatter});
  traits.supports_uneven = true;
  return traits;
}

REGISTER_COLLECTIVE(LocalReduceScatter,
                    Implemented<LocalImplementation<ReduceScatter>>(Traits()));

}  // namespace
}  // namespace tutti
