#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "framework/base/status_macros.h"
#include "framework/tensor/local_buffers.h"
#include "implementations/local/local_pass.h"
#include "tutti/implementation.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

using Piece = SegmentList::Piece;

// Number of members up to which no allocation is needed, as in Pointers.
constexpr size_t kMostInline = 16;

// The current piece of a member, while a fold moves along the line.
struct Cursor {
  const Piece* piece = nullptr;

  const uint8_t* input(int64_t at) const {
    return reinterpret_cast<const uint8_t*>(piece->input) + (at - piece->begin);
  }
  uint8_t* output(int64_t at) const {
    return reinterpret_cast<uint8_t*>(piece->output) + (at - piece->begin);
  }
};

Cursor CursorAt(absl::Span<const Piece> pieces, int64_t at) {
  return {std::upper_bound(
      pieces.data(), pieces.data() + pieces.size(), at,
      [](int64_t byte, const Piece& piece) { return byte < piece.end; })};
}

// All members are in this process: the last member to arrive has all inputs.
// The whole reduction is one pass over memory, line by line:
//
//   inputs    a  b  c  d       each is read once
//              | |  | |        in rank order
//            registers         (((a + b) + c) + d), final op
//              | |  | |        to all
//   outputs   w  x  y  z       each is written once
//
// n members of S bytes touch 2 n S bytes in total, the least possible. If
// members have segments, the pass goes from each segment end of any member to
// the next.
class Reduction : public LocalPass {
 public:
  explicit Reduction(absl::Span<const Attendee> members) : LocalPass(members) {
    bool has_segments = false;
    for (int rank = 0; rank < group_size(); ++rank) {
      has_segments = has_segments || segments(rank) != nullptr;
    }
    has_segments ? FindPieces() : FindBuffers();
  }

 private:
  int64_t num_bytes() const override {
    return instance().shape.num_elements() * element_bytes();
  }

  void FindBuffers() {
    for (int rank = 0; rank < group_size(); ++rank) {
      const uint8_t* const from = input(rank);
      uint8_t* const to = output(rank);
      inputs_.push_back(from);
      if (to == nullptr) continue;
      OutputsFor(from, to, &outputs_, &streamed_).push_back(to);
    }
  }

  // In place, the line was just read and is in the caches.
  Pointers<uint8_t>& OutputsFor(const uint8_t* input, const uint8_t* output,
                                Pointers<uint8_t>* near,
                                Pointers<uint8_t>* streamed) const {
    return !streams() || input == output ? *near : *streamed;
  }

  void FindPieces() {
    wholes_.resize(static_cast<size_t>(group_size()));
    for (int rank = 0; rank < group_size(); ++rank) {
      Piece& whole = wholes_[static_cast<size_t>(rank)];
      if (const SegmentList* const list = segments(rank)) {
        pieces_.push_back(list->pieces());
        continue;
      }
      whole = {.begin = 0,
               .end = num_bytes(),
               .input = reinterpret_cast<const std::byte*>(input(rank)),
               .output = reinterpret_cast<std::byte*>(output(rank))};
      pieces_.push_back(absl::MakeConstSpan(&whole, 1));
    }
  }

  absl::Status Run(ByteRange slice) const override {
    if (!pieces_.empty()) return RunPieces(slice);
    if (slice.begin == 0) {
      return FoldTo(inputs_, outputs_, streamed_, slice.end);
    }
    return FoldTo(At<const uint8_t>(inputs_, slice.begin),
                  At<uint8_t>(outputs_, slice.begin),
                  At<uint8_t>(streamed_, slice.begin), slice.size());
  }

  absl::Status FoldTo(absl::Span<const uint8_t* const> inputs,
                      absl::Span<uint8_t* const> outputs,
                      absl::Span<uint8_t* const> streamed,
                      int64_t num_bytes) const {
    return Fold(instance().dtype, instance().merge_op, instance().final_op,
                {.inputs = inputs,
                 .outputs = outputs,
                 .streamed = streamed,
                 .num_bytes = num_bytes});
  }

  absl::Status RunPieces(ByteRange slice) const {
    absl::InlinedVector<Cursor, kMostInline> cursors;
    for (const auto& pieces : pieces_) {
      cursors.push_back(CursorAt(pieces, slice.begin));
    }
    int64_t end = 0;
    for (int64_t begin = slice.begin; begin < slice.end; begin = end) {
      end = slice.end;
      for (const Cursor& cursor : cursors) {
        end = std::min(end, cursor.piece->end);
      }
      RETURN_IF_ERROR(FoldPieces(cursors, {begin, end}));
      for (Cursor& cursor : cursors) {
        if (cursor.piece->end == end) ++cursor.piece;
      }
    }
    return absl::OkStatus();
  }

  // Folds a range that lies in one piece of each member.
  absl::Status FoldPieces(absl::Span<const Cursor> cursors,
                          ByteRange range) const {
    Pointers<const uint8_t> inputs;
    Pointers<uint8_t> outputs;
    Pointers<uint8_t> streamed;
    for (const Cursor& cursor : cursors) {
      const uint8_t* const input = cursor.input(range.begin);
      uint8_t* const output = cursor.output(range.begin);
      inputs.push_back(input);
      OutputsFor(input, output, &outputs, &streamed).push_back(output);
    }
    return FoldTo(inputs, outputs, streamed, range.size());
  }

  Pointers<const uint8_t> inputs_;
  Pointers<uint8_t> outputs_;
  Pointers<uint8_t> streamed_;

  // By rank, if any member has segments; else empty.
  absl::InlinedVector<absl::Span<const Piece>, kMostInline> pieces_;
  absl::InlinedVector<Piece, kMostInline>
      wholes_;  // Pieces of members without segments.
};

ImplementationTraits Traits() {
  ImplementationTraits traits =
      LocalTraits("one pass over memory, in rank order",
                  {CollectiveType::kAllReduce, CollectiveType::kReduce});
  traits.shares_output = true;
  traits.takes_segments = true;
  return traits;
}

REGISTER_COLLECTIVE(LocalReduce,
                    Implemented<LocalImplementation<Reduction>>(Traits()));

}  // namespace
}  // namespace tutti
