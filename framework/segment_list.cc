#include "framework/segment_list.h"

#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

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

void Pack(const SegmentList& segments, Tensor& packed) {
  for (const SegmentList::Piece& piece : segments.pieces()) {
    std::memcpy(packed.mutable_data() + piece.begin, piece.input,
                static_cast<size_t>(piece.end - piece.begin));
  }
}

void Unpack(const Tensor& packed, const SegmentList& segments) {
  for (const SegmentList::Piece& piece : segments.pieces()) {
    std::memcpy(piece.output, packed.data() + piece.begin,
                static_cast<size_t>(piece.end - piece.begin));
  }
}

}  // namespace tutti
