#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

absl::Status CheckSegment(const SegmentList::Segment& segment, DType dtype) {
  const auto& [input, output] = segment;
  if (!input.is_set() || !output.is_set()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the ", input.is_set() ? "output" : "input", " is not set"));
  }
  if (input.dtype() != dtype || output.dtype() != dtype) {
    return absl::InvalidArgumentError(
        absl::StrCat("the input is ", Name(input.dtype()), ", the output ",
                     Name(output.dtype()), ", wanted ", Name(dtype),
                     " as the first input is"));
  }
  if (input.num_elements() != output.num_elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the input has ", input.num_elements(),
                     " elements, the output ", output.num_elements()));
  }
  if (OverlapOf(input, output) == Overlap::kPartial) {
    return absl::InvalidArgumentError("input and output overlap in part");
  }
  return absl::OkStatus();
}

// A range of memory that is read or written.
struct Stretch {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  size_t segment = 0;
  bool is_written = false;
};

// Ranges that each segment reads and writes: just one if it works in place.
std::vector<Stretch> StretchesOf(
    const std::vector<SegmentList::Segment>& segments) {
  std::vector<Stretch> stretches;
  for (size_t i = 0; i < segments.size(); ++i) {
    const auto& [input, output] = segments[i];
    if (input.num_elements() == 0) continue;
    stretches.push_back(
        {output.data(), output.data() + output.size_bytes(), i, true});
    if (input.data() == output.data()) continue;
    stretches.push_back(
        {input.data(), input.data() + input.size_bytes(), i, false});
  }
  return stretches;
}

// Checks that no written range overlaps another. Ranges of one segment are
// known to be apart, so two ranges that overlap belong to different segments.
// In the order of their begins, an overlap shows at the range that ends last.
absl::Status CheckApart(const std::vector<SegmentList::Segment>& segments) {
  std::vector<Stretch> stretches = StretchesOf(segments);
  std::sort(stretches.begin(), stretches.end(),
            [](const Stretch& a, const Stretch& b) {
              return std::less<>()(a.begin, b.begin);
            });
  Stretch last;          // Range seen so far that ends last.
  Stretch last_written;  // Written range that ends last.
  for (const Stretch& stretch : stretches) {
    const Stretch& other = stretch.is_written ? last : last_written;
    if (other.end != nullptr && std::less<>()(stretch.begin, other.end)) {
      const auto [first, second] = std::minmax(stretch.segment, other.segment);
      return absl::InvalidArgumentError(absl::StrCat(
          "segments ", first, " and ", second, " of ", segments.size(),
          " overlap, and one of them is written there"));
    }
    const auto extend = [&](Stretch& until) {
      if (std::less<>()(until.end, stretch.end)) until = stretch;
    };
    extend(last);
    if (stretch.is_written) extend(last_written);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const SegmentList>> SegmentList::Create(
    std::vector<Segment> segments) {
  if (segments.empty()) {
    return absl::InvalidArgumentError("a list of segments has none");
  }
  for (size_t i = 0; i < segments.size(); ++i) {
    const absl::Status status =
        CheckSegment(segments[i], segments[0].input.dtype());
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "segment ", i, " of ", segments.size(), ": ", status.message()));
    }
  }
  RETURN_IF_ERROR(CheckApart(segments));
  return absl::WrapUnique(new SegmentList(std::move(segments)));
}

SegmentList::SegmentList(std::vector<Segment> segments)
    : segments_(std::move(segments)) {
  int64_t begin = 0;
  for (const Segment& segment : segments_) {
    num_elements_ += segment.input.num_elements();
    if (segment.input.num_elements() == 0) continue;
    const int64_t end =
        begin + static_cast<int64_t>(segment.input.size_bytes());
    Tensor output = segment.output;
    pieces_.push_back({.begin = begin,
                       .end = end,
                       .input = segment.input.data(),
                       .output = output.mutable_data()});
    begin = end;
  }
}

absl::Status Pack(const SegmentList& segments, Tensor& packed, CopyPiece copy) {
  for (const SegmentList::Piece& piece : segments.pieces()) {
    RETURN_IF_ERROR(copy(packed.mutable_data() + piece.begin, piece.input,
                         static_cast<size_t>(piece.end - piece.begin)));
  }
  return absl::OkStatus();
}

absl::Status Unpack(const SegmentList& segments, Tensor& packed,
                    CopyPiece copy) {
  for (const SegmentList::Piece& piece : segments.pieces()) {
    RETURN_IF_ERROR(copy(piece.output, packed.data() + piece.begin,
                         static_cast<size_t>(piece.end - piece.begin)));
  }
  return absl::OkStatus();
}

}  // namespace tutti
