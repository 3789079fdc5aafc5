#include "tutti/tensor.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/names.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

// Runs a deleter when the last owner is destroyed.
class Adopted {
 public:
  explicit Adopted(Tensor::Deleter deleter) : deleter_(std::move(deleter)) {}
  ~Adopted() {
    if (deleter_) std::move(deleter_)();
  }
  Adopted(const Adopted&) = delete;
  Adopted& operator=(const Adopted&) = delete;

 private:
  Tensor::Deleter deleter_;
};

std::string DimsToString(absl::Span<const int64_t> dims) {
  return absl::StrCat("[", absl::StrJoin(dims, ","), "]");
}

constexpr absl::string_view kNames[] = {
#define TUTTI_DTYPE(category, code, name, Element) name,
    TUTTI_DTYPES(TUTTI_DTYPE)
#undef TUTTI_DTYPE
};

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

absl::StatusOr<int64_t> SizeInBytes(DType dtype, const TensorShape& shape) {
  if (!IsValid(dtype)) return InvalidDType(dtype);
  int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.num_elements(),
                             static_cast<int64_t>(SizeOf(dtype)), &bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Name(dtype), shape.ToString(),
                     " has more bytes than 64 bits can count"));
  }
  return bytes;
}

Tensor::Tensor(DType dtype, TensorShape shape, std::shared_ptr<void> owner,
               std::byte* data)
    : is_set_(true),
      dtype_(dtype),
      shape_(std::move(shape)),
      owner_(std::move(owner)),
      data_(data) {}

absl::StatusOr<Tensor> Tensor::Allocate(DType dtype, const TensorShape& shape) {
  ASSIGN_OR_RETURN(const int64_t bytes, SizeInBytes(dtype, shape));
  void* data = ::operator new(static_cast<size_t>(bytes),
                              std::align_val_t(kAlignmentBytes), std::nothrow);
  if (data == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for ", Name(dtype), shape.ToString(), ", ",
                     bytes, " bytes"));
  }
  std::shared_ptr<void> owner(data, [](void* memory) {
    ::operator delete(memory, std::align_val_t(kAlignmentBytes));
  });
  return Tensor(dtype, shape, std::move(owner), static_cast<std::byte*>(data));
}

absl::StatusOr<Tensor> Tensor::Wrap(DType dtype, const TensorShape& shape,
                                    void* data, Deleter deleter) {
  std::shared_ptr<void> owner;
  if (deleter) owner = std::make_shared<Adopted>(std::move(deleter));
  ASSIGN_OR_RETURN(const int64_t bytes, SizeInBytes(dtype, shape));
  if (data == nullptr && bytes > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a null buffer was given for ", Name(dtype),
                     shape.ToString(), ", ", bytes, " bytes"));
  }
  return Tensor(dtype, shape, std::move(owner), static_cast<std::byte*>(data));
}

absl::StatusOr<Tensor> Tensor::Slice(int64_t begin, int64_t end) const {
  if (shape_.num_dims() == 0) {
    return absl::InvalidArgumentError("a scalar cannot be sliced");
  }
  if (begin < 0 || begin > end || end > shape_.dim(0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("slice [", begin, ", ", end, ") is not within ",
                     shape_.ToString(), "'s first dimension"));
  }
  ASSIGN_OR_RETURN(const TensorShape shape, shape_.WithFirstDim(end - begin));
  const int64_t row_bytes =
      shape_.dim(0) == 0 ? 0
                         : static_cast<int64_t>(size_bytes()) / shape_.dim(0);
  std::byte* data = data_ == nullptr ? nullptr : data_ + begin * row_bytes;
  return Tensor(dtype_, shape, owner_, data);
}

absl::StatusOr<Tensor> Tensor::Reshaped(const TensorShape& shape) const {
  if (!is_set_) {
    return absl::InvalidArgumentError(
        "a tensor that is not set cannot be reshaped");
  }
  if (shape.num_elements() != num_elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot reshape ", shape_.ToString(), " (", num_elements(),
                     " elements) to ", shape.ToString(), " (",
                     shape.num_elements(), " elements)"));
  }
  return Tensor(dtype_, shape, owner_, data_);
}

Overlap OverlapOf(const Tensor& a, const Tensor& b) {
  const auto a_begin = reinterpret_cast<uintptr_t>(a.data());
  const auto b_begin = reinterpret_cast<uintptr_t>(b.data());
  const uintptr_t a_end = a_begin + a.size_bytes();
  const uintptr_t b_end = b_begin + b.size_bytes();
  if (a_begin == a_end || b_begin == b_end) return Overlap::kNone;
  if (a_begin == b_begin && a_end == b_end) return Overlap::kSame;
  return a_begin < b_end && b_begin < a_end ? Overlap::kPartial
                                            : Overlap::kNone;
}

absl::StatusOr<TensorShape> TensorShape::Create(
    absl::Span<const int64_t> dims) {
  TensorShape shape;
  bool overflows = false;
  for (int64_t dim : dims) {
    if (dim < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "shape ", DimsToString(dims), " has a negative dimension"));
    }
    if (dim == 0) continue;
    overflows |=
        __builtin_mul_overflow(shape.num_elements_, dim, &shape.num_elements_);
  }
  if (overflows) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape ", DimsToString(dims),
                     " has more elements than 64 bits can count"));
  }
  const bool is_empty = std::find(dims.begin(), dims.end(), 0) != dims.end();
  if (is_empty) shape.num_elements_ = 0;
  shape.SetDims(dims);
  return shape;
}

TensorShape TensorShape::Vector(int64_t num_elements) {
  TensorShape shape;
  shape.num_elements_ = std::max<int64_t>(num_elements, 0);
  shape.SetDims({&shape.num_elements_, 1});
  return shape;
}

absl::StatusOr<TensorShape> TensorShape::WithFirstDim(int64_t size) const {
  if (num_dims() == 0) {
    return absl::InvalidArgumentError("a scalar has no first dimension");
  }
  absl::InlinedVector<int64_t, 4> changed(dims().begin(), dims().end());
  changed[0] = size;
  return Create(changed);
}

std::string TensorShape::ToString() const { return DimsToString(dims()); }

void TensorShape::SetDims(absl::Span<const int64_t> dims) {
  if (dims.size() > few_.size()) {
    many_ =
        std::make_shared<const std::vector<int64_t>>(dims.begin(), dims.end());
    return;
  }
  std::copy(dims.begin(), dims.end(), few_.begin());
  num_few_ = dims.size();
}

absl::string_view Name(DType dtype) {
  return IsValid(dtype) ? kNames[static_cast<size_t>(dtype)]
                        : absl::string_view("invalid dtype");
}

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  return ParseName("dtype", name, kAllDTypes);
}

absl::Status InvalidDType(DType dtype) {
  return absl::InvalidArgumentError(
      absl::StrCat("there is no dtype ", static_cast<int>(dtype)));
}

bool IsFloating(DType dtype) {
  return VisitDType(
      dtype, []<typename Element>(Element) { return kIsFloating<Element>; });
}

bool IsInteger(DType dtype) {
  return VisitDType(
      dtype, []<typename Element>(Element) { return kIsInteger<Element>; });
}

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
