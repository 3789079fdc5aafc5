#ifndef TUTTI_TENSOR_H_
#define TUTTI_TENSOR_H_

// Tensors: element types, shapes, reference-counted buffers, and lists of
// segments that one all-reduce treats as one long tensor. Tensor::Wrap() adopts
// the caller's memory without a copy. Values; copies share the buffer. The
// caller orders all access to the elements.

#include <algorithm>
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tutti {

// 16-bit floating-point elements, as they lie in memory.
struct Float16 {  // IEEE 754 binary16.
  uint16_t code = 0;
};
struct BFloat16 {  // The upper half of an IEEE 754 binary32.
  uint16_t code = 0;
};

// 8-bit floating-point elements (OCP 8-bit Floating Point Specification), as
// they lie in memory. Results of reductions saturate: infinity and larger
// values become the largest finite value.
struct Float8E4M3FN {  // 4 exponent and 3 mantissa bits, no infinity.
  uint8_t code = 0;
};
struct Float8E5M2 {  // 5 exponent and 2 mantissa bits.
  uint8_t code = 0;
};

// All element types: X(category, code, name, C++ type of an element). Sizes,
// arithmetic, names and kernels of a dtype follow from its line. Numbers of
// codes go over the wire, so append new lines. A bool is a byte, 0 or 1.
//
// Elements of any other type, such as structs of 24 bytes or dates, move as
// bytes: as kUint8, with one more dimension, the last, of the bytes of an
// element. An array [1000, 3] of such structs is kUint8[1000, 3, 24].
#define TUTTI_DTYPES(X)                                     \
  X(Floating, kFloat16, "float16", Float16)                 \
  X(Floating, kBFloat16, "bfloat16", BFloat16)              \
  X(Floating, kFloat32, "float32", float)                   \
  X(Floating, kFloat64, "float64", double)                  \
  X(Integer, kInt8, "int8", int8_t)                         \
  X(Integer, kUint8, "uint8", uint8_t)                      \
  X(Integer, kInt32, "int32", int32_t)                      \
  X(Integer, kInt64, "int64", int64_t)                      \
  X(Bool, kBool, "bool", bool)                              \
  X(Integer, kInt16, "int16", int16_t)                      \
  X(Integer, kUint16, "uint16", uint16_t)                   \
  X(Integer, kUint32, "uint32", uint32_t)                   \
  X(Integer, kUint64, "uint64", uint64_t)                   \
  X(Floating, kFloat8E4M3FN, "float8_e4m3fn", Float8E4M3FN) \
  X(Floating, kFloat8E5M2, "float8_e5m2", Float8E5M2)       \
  X(Complex, kComplex64, "complex64", std::complex<float>)  \
  X(Complex, kComplex128, "complex128", std::complex<double>)

// Element types that collectives move.
enum class DType : uint8_t {
#define TUTTI_DTYPE(category, code, name, Element) code,
  TUTTI_DTYPES(TUTTI_DTYPE)
#undef TUTTI_DTYPE
};

inline constexpr std::array kAllDTypes = {
#define TUTTI_DTYPE(category, code, name, Element) DType::code,
    TUTTI_DTYPES(TUTTI_DTYPE)
#undef TUTTI_DTYPE
};

// Returns an array of `make(Element())` for the element type of each dtype.
template <class Make>
constexpr auto ForEachDType(const Make& make) {
#define TUTTI_DTYPE(category, code, name, Element) make(Element()),
  return std::array{TUTTI_DTYPES(TUTTI_DTYPE)};
#undef TUTTI_DTYPE
}

// Returns `visit(Element())` for the element type of `dtype`, always of one
// type; a default value of that type for an invalid dtype.
template <class Visit>
constexpr auto VisitDType(DType dtype, const Visit& visit) {
  switch (dtype) {
#define TUTTI_DTYPE(category, code, name, Element) \
  case DType::code:                                \
    return visit(Element());
    TUTTI_DTYPES(TUTTI_DTYPE)
#undef TUTTI_DTYPE
  }
  return decltype(visit(uint8_t()))();
}

// False for a number that was cast to DType and names no type.
constexpr bool IsValid(DType dtype) {
  return static_cast<size_t>(dtype) < kAllDTypes.size();
}

// Returns INVALID_ARGUMENT with the number.
absl::Status InvalidDType(DType dtype);

// Bytes per element; 0 for an invalid dtype.
constexpr size_t SizeOf(DType dtype) {
  constexpr auto kSizes =
      ForEachDType([](auto element) { return sizeof(element); });
  return IsValid(dtype) ? kSizes[static_cast<size_t>(dtype)] : 0;
}

// Returns "float32", "bfloat16", ...: the names of NumPy and ml_dtypes.
absl::string_view Name(DType dtype);

// Inverse of Name(). Errors: INVALID_ARGUMENT listing the known names.
absl::StatusOr<DType> ParseDType(absl::string_view name);

bool IsFloating(DType dtype);
bool IsInteger(DType dtype);  // kBool is not an integer.

// DType of the two parts of a complex element, real and imaginary. Else
// `dtype`.
constexpr DType PartOf(DType dtype) {
  return dtype == DType::kComplex64    ? DType::kFloat32
         : dtype == DType::kComplex128 ? DType::kFloat64
                                       : dtype;
}
constexpr bool IsComplex(DType dtype) { return PartOf(dtype) != dtype; }

template <typename Element>
inline constexpr bool kIsComplex = false;
template <typename Part>
inline constexpr bool kIsComplex<std::complex<Part>> = true;
template <typename Element>
inline constexpr bool kIsFloating =
    !std::is_integral_v<Element> && !kIsComplex<Element>;
template <typename Element>
inline constexpr bool kIsInteger =
    std::is_integral_v<Element> && !std::is_same_v<Element, bool>;

// Sizes of a tensor's dimensions, outermost first. A value. The product of all
// non-zero sizes fits into an int64_t.
class TensorShape {
 public:
  // A scalar: no dimensions, one element.
  TensorShape() = default;

  // Errors: INVALID_ARGUMENT for a negative size or more than 2^63-1 elements.
  // A size of 0 counts as 1 in that limit, so the size of a row always fits.
  static absl::StatusOr<TensorShape> Create(absl::Span<const int64_t> dims);

  // Shape of one dimension. A negative number counts as 0.
  static TensorShape Vector(int64_t num_elements);

  int num_dims() const { return static_cast<int>(dims().size()); }
  int64_t dim(int i) const { return dims()[static_cast<size_t>(i)]; }
  absl::Span<const int64_t> dims() const {
    return many_ == nullptr ? absl::MakeConstSpan(few_.data(), num_few_)
                            : absl::MakeConstSpan(*many_);
  }
  int64_t num_elements() const { return num_elements_; }

  // Copy of this shape with another outermost size. Errors: INVALID_ARGUMENT
  // for a scalar, and as Create.
  absl::StatusOr<TensorShape> WithFirstDim(int64_t size) const;

  std::string ToString() const;  // "[2,3]"

  friend bool operator==(const TensorShape& a, const TensorShape& b) {
    if (a.many_ == nullptr && b.many_ == nullptr) {
      // Unused entries are 0. One pass over all of them avoids a call of
      // memcmp().
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

  // Stored inline because every call of a collective copies shapes.
  std::array<int64_t, 4> few_ = {};
  size_t num_few_ = 0;
  std::shared_ptr<const std::vector<int64_t>> many_;  // More dimensions.
  int64_t num_elements_ = 1;
};

// A dtype, a shape and a reference-counted buffer in C order. Copies and slices
// share the buffer; the last of them frees it. Copying is thread-safe as for
// shared_ptr. The caller orders all access to the elements.
class Tensor {
 public:
  // Runs once, when the last tensor that shares the buffer is destroyed, on the
  // thread that destroys it.
  using Deleter = absl::AnyInvocable<void() &&>;

  // Has no buffer; is_set() is false.
  Tensor() = default;

  // Returns uninitialised host memory, aligned to kAlignmentBytes. Errors:
  // INVALID_ARGUMENT if the size in bytes does not fit 64 bits;
  // RESOURCE_EXHAUSTED if there is not enough memory.
  static absl::StatusOr<Tensor> Allocate(DType dtype, const TensorShape& shape);

  // Adopts the caller's memory, of any alignment, without a copy. `deleter` may
  // be null; it runs exactly once, also if Wrap fails. Errors: INVALID_ARGUMENT
  // if `data` is null and the shape is not empty, or if the size in bytes
  // overflows.
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

  // Rows [begin, end) of the first dimension, in the same buffer. Errors:
  // INVALID_ARGUMENT for a scalar or a range outside the dimension.
  absl::StatusOr<Tensor> Slice(int64_t begin, int64_t end) const;

  // The same elements and buffer under another shape. Errors: INVALID_ARGUMENT
  // if the number of elements differs or there is no buffer.
  absl::StatusOr<Tensor> Reshaped(const TensorShape& shape) const;

  static constexpr size_t kAlignmentBytes = 64;

 private:
  Tensor(DType dtype, TensorShape shape, std::shared_ptr<void> owner,
         std::byte* data);

  bool is_set_ = false;
  DType dtype_ = DType::kFloat32;
  TensorShape shape_;
  std::shared_ptr<void> owner_;  // Null if nothing frees the memory.
  std::byte* data_ = nullptr;
};

// Bytes of `shape` with elements of `dtype`. Errors: INVALID_ARGUMENT if the
// number does not fit 64 bits.
absl::StatusOr<int64_t> SizeInBytes(DType dtype, const TensorShape& shape);

// Overlap of the memory of two tensors.
enum class Overlap { kNone, kSame, kPartial };
Overlap OverlapOf(const Tensor& a, const Tensor& b);

// Tensors that one all-reduce treats as one long tensor: one execution for a
// thousand small tensors. Members may cut their tensors differently, but every
// member's list has the same number of elements in all.
//
// Immutable. A runtime makes the list once and passes it to each call. The list
// shares the tensors' buffers.
class SegmentList {
 public:
  // An input and the place of its result, which may be the same memory.
  struct Segment {
    Tensor input;
    Tensor output;
  };

  // Bytes [begin, end) of the concatenation of all tensors. Never empty.
  struct Piece {
    int64_t begin = 0;
    int64_t end = 0;
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
  };

  // Errors: INVALID_ARGUMENT if there is no segment, a tensor is not set, or
  // dtypes differ. Likewise if an input and its output differ in number of
  // elements or overlap in part, or if an output overlaps another segment.
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

// Copies bytes between two ranges that do not overlap.
using CopyPiece = absl::FunctionRef<absl::Status(
    std::byte* into, const std::byte* from, size_t num_bytes)>;

// Pack copies all inputs into `packed`, one after the other. Unpack copies
// `packed` to all outputs. Both stop at the first error of `copy`. REQUIRES:
// `packed` has num_bytes() bytes.
absl::Status Pack(const SegmentList& segments, Tensor& packed, CopyPiece copy);
absl::Status Unpack(const SegmentList& segments, Tensor& packed,
                    CopyPiece copy);

}  // namespace tutti

#endif  // TUTTI_TENSOR_H_
