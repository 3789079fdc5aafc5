#ifndef TUTTI_FRAMEWORK_SEGMENT_LIST_H_
#define TUTTI_FRAMEWORK_SEGMENT_LIST_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/dtype.h"
#include "framework/tensor.h"

namespace tutti {

// Tensors that one all-reduce takes as if they lay one after the other: one
// execution for a thousand small tensors. Members may cut differently what they
// have; all together must have equally many elements.
//
// Immutable; a runtime makes it once and passes it each time. It shares the
// tensors' buffers.
class SegmentList {
 public:
  // A tensor, and where its result goes, which may be the same memory.
  struct Segment {
    Tensor input;
    Tensor output;
  };

  // Bytes [begin, end) of all that the tensors hold. There are no empty ones.
  struct Piece {
    int64_t begin = 0;
    int64_t end = 0;
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
  };

  // Errors: INVALID_ARGUMENT if there is no segment; where a tensor is not set;
  // where dtypes differ, or the elements of an input and its output in number;
  // where these two overlap in part, or an output overlaps another segment.
  static absl::StatusOr<std::shared_ptr<const SegmentList>> Create(
      std::vector<Segment> segments);

  DType dtype() const { return segments_[0].input.dtype(); }
  int64_t num_elements() const { return num_elements_; }
  int64_t num_bytes() const { return pieces_.empty() ? 0 : pieces_.back().end; }

  absl::Span<const Segment> segments() const { return segments_; }
  absl::Span<const Piece> pieces() const { return pieces_; }

 private:
  explicit SegmentList(std::vector<Segment> segments);

  const std::vector<Segment> segments_;
  int64_t num_elements_ = 0;
  std::vector<Piece> pieces_;
};

// Copies bytes of which none overlap.
using CopyPiece = absl::FunctionRef<absl::Status(
    std::byte* into, const std::byte* from, size_t num_bytes)>;

// Copies all inputs into `packed`, one after the other, and `packed` to all
// outputs. The first error of `copy` ends it. REQUIRES: it has as many bytes.
absl::Status Pack(const SegmentList& segments, Tensor& packed, CopyPiece copy);
absl::Status Unpack(const SegmentList& segments, Tensor& packed,
                    CopyPiece copy);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_SEGMENT_LIST_H_
