#ifndef TUTTI_REDUCTION_H_
#define TUTTI_REDUCTION_H_

// Reductions: built-in kinds, merge ops and final ops, also the caller's
// own, and their arithmetic on host memory. Results are the same bits on
// every CPU, for every length and alignment. Two custom ops of one name
// count as the same.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tutti/tensor.h"

namespace tutti {

// How two elements become one. All are associative and commutative up to
// rounding. An average is a kSum whose result is divided by the group's size.
enum class ReductionKind : uint8_t {
  kSum,
  kProd,
  kMin,
  kMax,
  kBand,
  kBor,
  kBxor,
};

inline constexpr std::array<ReductionKind, 7> kAllReductionKinds = {
    ReductionKind::kSum, ReductionKind::kProd, ReductionKind::kMin,
    ReductionKind::kMax, ReductionKind::kBand, ReductionKind::kBor,
    ReductionKind::kBxor};

// False for a number that was cast to ReductionKind and names none.
constexpr bool IsValid(ReductionKind kind) {
  return kind <= ReductionKind::kBxor;
}

// "sum", "prod", "min", "max", "band", "bor", "bxor".
absl::string_view Name(ReductionKind kind);

// The inverse of Name(). Errors: INVALID_ARGUMENT listing the known names.
absl::StatusOr<ReductionKind> ParseReductionKind(absl::string_view name);

// Whether elements of `dtype` can be reduced by `kind`: both must be valid, bit
// operations need integers, and bool is moved but never reduced. Errors:
// INVALID_ARGUMENT naming both.
absl::Status CheckSupported(ReductionKind kind, DType dtype);

// A merge op of the caller: any associative function. The name is what members
// compare, so one name must mean one function everywhere.
struct CustomMergeOp {
  std::string name;

  // If false, only implementations that reduce in rank order may run it.
  bool commutative = false;

  // into[i] = left[i] (+) right[i] for `num_elements` elements; `into` is
  // `left`, `right` or apart from both. Thread-safe.
  //
  // The pointers need not be aligned, not even to an element: they are where a
  // member's tensor is, and Tensor::Wrap takes any memory. Read and write
  // elements with std::memcpy unless all your tensors are aligned.
  std::function<absl::Status(DType dtype, const void* left, const void* right,
                             void* into, int64_t num_elements)>
      apply;
};

// How two members' elements are combined. A value.
class MergeOp {
 public:
  MergeOp() = default;                          // Sum.
  MergeOp(ReductionKind kind) : kind_(kind) {}  // NOLINT: a kind is a merge op.

  // Errors: INVALID_ARGUMENT without a name or a function, or with the name of
  // a built-in kind.
  static absl::StatusOr<MergeOp> Custom(CustomMergeOp op);

  absl::string_view name() const;
  bool is_custom() const { return custom_ != nullptr; }
  ReductionKind kind() const { return kind_; }  // REQUIRES: !is_custom().
  bool commutative() const {
    return custom_ == nullptr || custom_->commutative;
  }

  // Errors: INVALID_ARGUMENT if elements of `dtype` cannot be combined so.
  absl::Status CheckSupports(DType dtype) const;

  // into = left (+) right, as tutti/reduction.h says. Errors: those of a
  // custom function, of whose op they say the name; INTERNAL if it throws.
  absl::Status Apply(DType dtype, const void* left, const void* right,
                     void* into, int64_t num_elements) const;

  // By name: two custom functions of one name count as the same.
  friend bool operator==(const MergeOp& a, const MergeOp& b) {
    return a.kind_ == b.kind_ && a.name() == b.name();
  }

 private:
  ReductionKind kind_ = ReductionKind::kSum;
  std::shared_ptr<const CustomMergeOp> custom_;
};

// A final op of the caller; the name is what members compare.
struct CustomFinalOp {
  std::string name;

  // Changes `num_elements` values in place. Thread-safe. As in CustomMergeOp,
  // `values` need not be aligned.
  std::function<absl::Status(DType dtype, void* values, int64_t num_elements,
                             int group_size)>
      apply;
};

// What happens once to each element of a reduction's result. A value.
class FinalOp {
 public:
  FinalOp() = default;  // Identity.

  // Division by the size of the group: with a sum, the average.
  static FinalOp DivideByGroupSize();

  // Errors: INVALID_ARGUMENT without a name or a function, or with the name of
  // a built-in one.
  static absl::StatusOr<FinalOp> Custom(CustomFinalOp op);

  absl::string_view name() const;
  bool is_identity() const { return kind_ == Kind::kIdentity; }
  bool is_custom() const { return custom_ != nullptr; }

  // Errors: as MergeOp::Apply.
  absl::Status Apply(DType dtype, void* values, int64_t num_elements,
                     int group_size) const;

  friend bool operator==(const FinalOp& a, const FinalOp& b) {
    return a.kind_ == b.kind_ && a.name() == b.name();
  }

 private:
  enum class Kind : uint8_t { kIdentity, kDivideByGroupSize, kCustom };

  Kind kind_ = Kind::kIdentity;
  std::shared_ptr<const CustomFinalOp> custom_;
};

// The arithmetic of collectives on host memory. Thread-safe, allocates nothing,
// and picks the best vector instructions of the CPU when first called.
//
// Results are the same bits on every CPU, for every length and alignment, and
// whichever operand is left:
// - Integer sums and products wrap around, as in two's complement.
// - float16 and bfloat16 are computed in float32 and rounded once, to nearest
//   even. Denormals are kept, and what is too large becomes infinity.
// - min and max order -0 below +0, and are NaN if either operand is.
// - Every NaN that is written has the same bits: sign 0, quiet, payload 0.
// This holds in the default floating-point environment. A thread that flushes
// denormals or rounds otherwise gets what its mode makes of the arithmetic.

// into[i] = left[i] (+) right[i] for `num_elements` elements.
//
// The pointers need no alignment, not even that of an element. `into` may equal
// `left`, `right` or both, but may not overlap them in part. Does nothing if
// CheckSupported(kind, dtype) fails.
void Reduce(ReductionKind kind, DType dtype, const void* left,
            const void* right, void* into, size_t num_elements);

// A reduction of many buffers in one pass over memory.
struct ManyReduction {
  ReductionKind kind = ReductionKind::kSum;
  DType dtype = DType::kFloat32;
  absl::Span<const uint8_t* const> inputs;  // At least one.
  absl::Span<uint8_t* const> outputs;

  // More outputs, written past the caches: for what nobody reads before it
  // would have left them anyway. Saves reading the memory that is overwritten.
  absl::Span<uint8_t* const> streamed;

  size_t num_elements = 0;
  int64_t divisor = 1;  // REQUIRES: > 0, and 1 unless the dtype is floating.
};

// Every output = (inputs[0] (+) inputs[1] (+) ..., from left to right) /
// divisor.
//
// float16 and bfloat16 are computed in float32 to the end and rounded once.
// Pointers as for Reduce(): an output may equal inputs; it may overlap nothing
// else.
void ReduceMany(const ManyReduction& reduction);

// The first `num_bytes` of `from` to every output, bit by bit.
void CopyToMany(const uint8_t* from, absl::Span<uint8_t* const> outputs,
                absl::Span<uint8_t* const> streamed, size_t num_bytes);

// values[i] /= divisor: from a sum to an average.
//
// Integers are divided in 64 bits, so that no divisor is too large, and
// truncate toward zero. float16 and bfloat16 are divided in float32 and rounded
// once more. A floating dtype first rounds the divisor to the type it divides
// in, which matters only above 2^24. `values` needs no alignment. Does nothing
// to bool or if `dtype` is not valid. REQUIRES: divisor > 0.
void DivideBy(DType dtype, void* values, size_t num_elements, int64_t divisor);

// Buffers of one length.
struct FoldBuffers {
  absl::Span<const uint8_t* const> inputs;  // At least one.
  absl::Span<uint8_t* const> outputs;       // Each may be an input.
  absl::Span<uint8_t* const> streamed;      // More, written past the caches.
  int64_t num_bytes = 0;                    // Whole elements.
  int group_size = 0;  // For the final op; 0: as many as inputs.
};

// Every output = the inputs, merged in their order, with the final op: in one
// pass where the ops are built in, so that float16 and bfloat16 are rounded
// once, after the final op. Ops of the caller, averages of integers and groups
// of one take one more step: each tile of a few thousand bytes is reduced in
// the first-level cache, by a merge op of the caller pair by pair. Errors:
// those of the ops.
absl::Status Fold(DType dtype, const MergeOp& merge_op, const FinalOp& final_op,
                  const FoldBuffers& buffers);

}  // namespace tutti

#endif  // TUTTI_REDUCTION_H_
