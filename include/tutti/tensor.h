#ifndef TUTTI_TENSOR_H_
#define TUTTI_TENSOR_H_

// Tensors: element types, shapes, reference-counted buffers, and lists of
// segments that one all-reduce takes as if they lay one after the other.
// Tensor::Wrap() adopts the caller's memory without a copy. Values; copies
// share the buffer. Access to the elements is the caller's to order.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tutti {

// The element types that collectives move. All are reduced too, except kBool,
// which is only moved.
enum class DType : uint8_t {
  kFloat16,   // IEEE 754 binary16.
  kBFloat16,  // The upper half of an IEEE 754 binary32.
  kFloat32,
  kFloat64,
  kInt8,
  kUint8,
  kInt32,
  kInt64,
  kBool,  // One byte, 0 or 1.
};

inline constexpr std::array<DType, 9> kAllDTypes = {
    DType::kFloat16, DType::kBFloat16, DType::kFloat32,
    DType::kFloat64, DType::kInt8,     DType::kUint8,
    DType::kInt32,   DType::kInt64,    DType::kBool};

// False for a number that was cast to DType and names none.
constexpr bool IsValid(DType dtype) { return dtype <= DType::kBool; }

// INVALID_ARGUMENT, with the number.
absl::Status InvalidDType(DType dtype);

// Bytes per element; 0 if not valid.
constexpr size_t SizeOf(DType dtype) {
  constexpr std::array<size_t, kAllDTypes.size()> kSizes = {2, 2, 4, 8, 1,
                                                            1, 4, 8, 1};
  return IsValid(dtype) ? kSizes[static_cast<size_t>(dtype)] : 0;
}

// "float32", "bfloat16", ...: NumPy's names where NumPy has one.
absl::string_view Name(DType dtype);

// The inverse of Name(). Errors: INVALID_ARGUMENT listing the known names.
absl::StatusOr<DType> ParseDType(absl::string_view name);

bool IsFloating(DType dtype);
bool IsInteger(DType dtype);  // kBool is not an integer.

// The sizes of a tensor's dimensions, outermost first. A value; the product of
// all that are not 0 is known to fit into an int64_t.
class TensorShape {
 public:
  // A scalar: no dimensions, one element.
  TensorShape() = default;

  // Errors: INVALID_ARGUMENT for a negative size or more than 2^63-1 elements,
  // where a size of 0 counts as 1: so that the size of a row always fits, too.
  static absl::StatusOr<TensorShape> Create(absl::Span<const int64_t> dims);

  // One dimension. Negative counts as 0.
  static TensorShape Vector(int64_t num_elements);

  int num_dims() const { return static_cast<int>(dims().size()); }
  int64_t dim(int i) const { return dims()[static_cast<size_t>(i)]; }
  absl::Span<const int64_t> dims() const {
    return many_ == nullptr ? absl::MakeConstSpan(few_.data(), num_few_)
                            : absl::MakeConstSpan(*many_);
  }
  int64_t num_elements() const { return num_elements_; }

  // This shape with another outermost size. Errors: INVALID_ARGUMENT for a
  // scalar, and as Create.
  absl::StatusOr<TensorShape> WithFirstDim(int64_t size) const;

  std::string ToString() const;  // "[2,3]"

  friend bool operator==(const TensorShape& a, const TensorShape& b) {
    if (a.many_ == nullptr && b.many_ == nullptr) {
      // Unused are 0. All at once: in turn it would be a call of memcmp().
      int64_t differing = 0;
      for (size_t i = 0; i < a.few_.size(); ++i) {
        differing |= a.few_[i] ^ b.few_[i];
      }
      return a.num_few_ == b.num_few_ && differing == 0;
    }
    return std::ranges::equal(a.dims(), b.dims());
  }

 private:
  void SetDims(absl::Span<const int64_t> dims);

  // Every call of a collective copies shapes.
  std::array<int64_t, 4> few_ = {};
  size_t num_few_ = 0;
  std::shared_ptr<const std::vector<int64_t>> many_;  // Where there are more.
  int64_t num_elements_ = 1;
};

// A dtype, a shape and a reference-counted buffer, C order. Copies and slices
// share the buffer; it is freed with the last of them. Copying is thread-safe
// as for shared_ptr; access to the elements is the caller's to order.
class Tensor {
 public:
  // Runs once, when the last tensor that shares the buffer is gone, on the
  // thread where it went.
  using Deleter = absl::AnyInvocable<void() &&>;

  // No buffer; is_set() is false.
  Tensor() = default;

  // Uninitialised host memory, aligned to kAlignmentBytes. Errors:
  // INVALID_ARGUMENT if shape x size does not fit 64 bits; RESOURCE_EXHAUSTED
  // if there is not so much memory.
  static absl::StatusOr<Tensor> Allocate(DType dtype, const TensorShape& shape);

  // Adopts the caller's memory without copying; any alignment. `deleter` may be
  // null; it runs exactly once, also if Wrap fails. Errors: INVALID_ARGUMENT if
  // `data` is null and the shape is not empty, or if shape x size overflows.
  static absl::StatusOr<Tensor> Wrap(DType dtype, const TensorShape& shape,
                                     void* data, Deleter deleter = nullptr);

  bool is_set() const { return is_set_; }
  DType dtype() const { return dtype_; }
  const TensorShape& shape() const { return shape_; }
  int64_t num_elements() const { return shape_.num_elements(); }
  size_t size_bytes() const {  // 0 if not set.
    return is_set_ ? static_cast<size_t>(num_elements()) * SizeOf(dtype_) : 0;
  }

  const std::byte* data() const { return data_; }
  std::byte* mutable_data() { return data_; }

  // Rows [begin, end) of the first dimension; shares the buffer. Errors:
  // INVALID_ARGUMENT for a scalar or a range outside the dimension.
  absl::StatusOr<Tensor> Slice(int64_t begin, int64_t end) const;

  // The same elements under another shape; shares the buffer. Errors:
  // INVALID_ARGUMENT if the number of elements differs or there is no buffer.
  absl::StatusOr<Tensor> Reshaped(const TensorShape& shape) const;

  static constexpr size_t kAlignmentBytes = 64;

 private:
  Tensor(DType dtype, TensorShape shape, std::shared_ptr<void> owner,
         std::byte* data);

  bool is_set_ = false;
  DType dtype_ = DType::kFloat32;
  TensorShape shape_;
  std::shared_ptr<void> owner_;  // Null where nobody waits for the end.
  std::byte* data_ = nullptr;
};

// Bytes of `shape` with elements of `dtype`. Errors: INVALID_ARGUMENT if they
// do not fit 64 bits.
absl::StatusOr<int64_t> SizeInBytes(DType dtype, const TensorShape& shape);

// How two stretches of memory lie to each other.
enum class Overlap { kNone, kSame, kPartial };
Overlap OverlapOf(const Tensor& a, const Tensor& b);

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

#endif  // TUTTI_TENSOR_H_
