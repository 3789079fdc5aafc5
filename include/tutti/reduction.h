#ifndef TUTTI_REDUCTION_H_
#define TUTTI_REDUCTION_H_

// Reductions: built-in and custom merge ops and final ops, and their arithmetic
// on host memory. Results are the same bits on every CPU, for every length and
// alignment. Two custom ops with the same name count as the same op.

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

// Ways to combine two elements. All are associative and commutative up to
// rounding. An average is a kSum followed by a division by the group size.
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

// False for a number that was cast to ReductionKind and names no kind.
constexpr bool IsValid(ReductionKind kind) {
  return kind <= ReductionKind::kBxor;
}

// Returns "sum", "prod", "min", "max", "band", "bor" or "bxor".
absl::string_view Name(ReductionKind kind);

// Inverse of Name(). Errors: INVALID_ARGUMENT listing the known names.
absl::StatusOr<ReductionKind> ParseReductionKind(absl::string_view name);

// Checks that `kind` can reduce elements of `dtype`: both must be valid, bit
// operations need integers or bool, bool has neither sum nor product, and
// complex numbers have nothing else. Errors: INVALID_ARGUMENT naming both.
absl::Status CheckSupported(ReductionKind kind, DType dtype);

// A merge op of the caller: any associative function. Members compare ops by
// name, so one name must mean one function everywhere.
struct CustomMergeOp {
  std::string name;

  // If false, only implementations that reduce in rank order may run the op.
  bool commutative = false;

  // Computes into[i] = left[i] (+) right[i] for `num_elements` elements. `into`
  // is `left`, `right` or separate from both. Thread-safe.
  //
  // A call gets any part of the elements: implementations cut tensors between
  // any two elements of `dtype`. An item of the caller that spans several
  // elements may be cut, too.
  //
  // The pointers need not be aligned, not even to an element, because
  // Tensor::Wrap takes any memory. Use std::memcpy to read and write elements
  // unless all your tensors are aligned.
  std::function<absl::Status(DType dtype, const void* left, const void* right,
                             void* into, int64_t num_elements)>
      apply;

  // Puts the same computation on `stream`, a cudaStream_t. Operands are in
  // memory that the stream's GPU reads in place: its own, that of linked GPUs,
  // or pinned memory of the host. `into` is in its own. The GPU is current for
  // the thread. Enqueues and returns: must not wait. Null: GPUs refuse the op.
  // Give it in all members on GPUs.
  std::function<absl::Status(DType dtype, const void* left, const void* right,
                             void* into, int64_t num_elements, void* stream)>
      apply_on_gpu;
};

// Op that combines the elements of two members. A value.
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

  // Errors: INVALID_ARGUMENT if the op cannot combine elements of `dtype`.
  absl::Status CheckSupports(DType dtype) const;

  // Computes into = left (+) right. Pointers as for CustomMergeOp::apply.
  // Errors: any error of a custom function, with the op's name; INTERNAL if the
  // function throws.
  absl::Status Apply(DType dtype, const void* left, const void* right,
                     void* into, int64_t num_elements) const;

  // Puts the same on a stream: CustomMergeOp::apply_on_gpu. REQUIRES:
  // is_custom() and runs_on_gpus().
  bool runs_on_gpus() const {
    return custom_ == nullptr || custom_->apply_on_gpu != nullptr;
  }
  absl::Status ApplyOnGpu(DType dtype, const void* left, const void* right,
                          void* into, int64_t num_elements, void* stream) const;

  // Compares names: two custom functions with the same name count as equal.
  friend bool operator==(const MergeOp& a, const MergeOp& b) {
    return a.kind_ == b.kind_ && a.name() == b.name();
  }

 private:
  ReductionKind kind_ = ReductionKind::kSum;
  std::shared_ptr<const CustomMergeOp> custom_;
};

// A final op of the caller. Members compare ops by name.
struct CustomFinalOp {
  std::string name;

  // Changes `num_elements` values in place. Thread-safe. `values` need not be
  // aligned.
  std::function<absl::Status(DType dtype, void* values, int64_t num_elements,
                             int group_size)>
      apply;

  // Same on a stream of a GPU: see CustomMergeOp::apply_on_gpu.
  std::function<absl::Status(DType dtype, void* values, int64_t num_elements,
                             int group_size, void* stream)>
      apply_on_gpu;
};

// Op applied once to each element of a reduction's result. A value.
class FinalOp {
 public:
  FinalOp() = default;  // Identity.

  // Division by the group size: turns a sum into an average.
  static FinalOp DivideByGroupSize();

  // Errors: INVALID_ARGUMENT without a name or a function, or with the name of
  // a built-in op.
  static absl::StatusOr<FinalOp> Custom(CustomFinalOp op);

  absl::string_view name() const;
  bool is_identity() const { return kind_ == Kind::kIdentity; }
  bool is_custom() const { return custom_ != nullptr; }

  // Errors: as MergeOp::Apply.
  absl::Status Apply(DType dtype, void* values, int64_t num_elements,
                     int group_size) const;

  // Same on a stream: see MergeOp::ApplyOnGpu().
  bool runs_on_gpus() const {
    return custom_ == nullptr || custom_->apply_on_gpu != nullptr;
  }
  absl::Status ApplyOnGpu(DType dtype, void* values, int64_t num_elements,
                          int group_size, void* stream) const;

  friend bool operator==(const FinalOp& a, const FinalOp& b) {
    return a.kind_ == b.kind_ && a.name() == b.name();
  }

 private:
  enum class Kind : uint8_t { kIdentity, kDivideByGroupSize, kCustom };

  Kind kind_ = Kind::kIdentity;
  std::shared_ptr<const CustomFinalOp> custom_;
};

// True if the ops average integers. The result is the exact mean, truncated
// toward zero, because one step reduces all inputs: a sum in the dtype may wrap
// around.
bool IsMeanOfIntegers(DType dtype, const MergeOp& merge_op,
                      const FinalOp& final_op);

// Arithmetic of collectives on host memory. Thread-safe, allocates nothing, and
// picks the best vector instructions of the CPU on the first call.
//
// Results are the same bits on every CPU, for every length and alignment, and
// for either order of the operands:
//  - Integer sums and products wrap around, as in two's complement.
//  - A bool that is not 0 counts as true. Results of two and more are 0 or 1:
//    min and band are "and", max and bor are "or", bxor is "exclusive or". One
//    input alone is copied, of any dtype.
//  - Floats of 8 and 16 bits are computed in float32 and rounded once, to
//    nearest even. Denormals are kept. Values that are too large become
//    infinity; in 8 bits the largest finite value, as do infinities.
//  - Complex numbers are added, multiplied and divided by parts: each product
//    and each sum of parts is rounded.
//  - min and max order -0 below +0, and are NaN if either operand is.
//  - Every NaN that is written has the same bits: sign 0, quiet, payload 0.
// These promises hold in the default floating-point environment. A thread that
// flushes denormals or rounds otherwise gets the results of that mode.

// Computes into[i] = left[i] (+) right[i] for `num_elements` elements.
//
// The pointers need no alignment, not even to an element. `into` may equal
// `left`, `right` or both, but must not overlap them in part. Does nothing if
// CheckSupported(kind, dtype) fails.
void Reduce(ReductionKind kind, DType dtype, const void* left,
            const void* right, void* into, size_t num_elements);

// A reduction of many buffers in one pass over memory.
struct ManyReduction {
  ReductionKind kind = ReductionKind::kSum;
  DType dtype = DType::kFloat32;
  absl::Span<const uint8_t* const> inputs;  // At least one.
  absl::Span<uint8_t* const> outputs;

  // More outputs, written past the caches: for results that leave the caches
  // before their next read. Saves a read of the memory that is overwritten.
  absl::Span<uint8_t* const> streamed;

  size_t num_elements = 0;

  // REQUIRES: > 0; also 1 unless the dtype is floating or `kind` is kSum.
  int64_t divisor = 1;
};

// Computes every output = (inputs[0] (+) inputs[1] (+) ..., from left to right)
// / divisor.
//
// Floats of 8 and 16 bits are computed in float32 to the end and rounded once.
// A sum of integers that is divided is exact, in 64 bits, or in 128 for dtypes
// of 64 bits; the quotient truncates toward zero. Pointers as for Reduce(): an
// output may equal an input, and overlaps nothing else.
void ReduceMany(const ManyReduction& reduction);

// Copies the first `num_bytes` of `from` to every output, bit by bit.
void CopyToMany(const uint8_t* from, absl::Span<uint8_t* const> outputs,
                absl::Span<uint8_t* const> streamed, size_t num_bytes);

// Computes values[i] /= divisor: turns a sum into an average.
//
// Integers are divided in 64 bits and truncate toward zero, so no divisor is
// too large. Floats of 8 and 16 bits are divided in float32 and rounded once
// more. For a floating or complex dtype, the divisor is first rounded to the
// type of the division; this matters only above 2^24. `values` needs no
// alignment. Does nothing for bool or an invalid `dtype`. REQUIRES: divisor
// > 0.
void DivideBy(DType dtype, void* values, size_t num_elements, int64_t divisor);

// Computes into[i] = from[i] * factor for floats and the parts of complex
// numbers.
//
// The factor is first rounded to the type of the multiplication, which is
// float32 for floats of 8 and 16 bits; their products are rounded once more.
// `into` equals `from` or is separate. The pointers need no alignment. Does
// nothing for integers, bool or an invalid `dtype`.
void MultiplyBy(DType dtype, const void* from, void* into, size_t num_elements,
                double factor);

// Buffers of equal length.
struct FoldBuffers {
  absl::Span<const uint8_t* const> inputs;  // At least one.
  absl::Span<uint8_t* const> outputs;       // Each may be an input.
  absl::Span<uint8_t* const> streamed;      // More, written past the caches.
  int64_t num_bytes = 0;                    // A multiple of the element size.
  int group_size = 0;  // Argument of the final op. 0: number of inputs.
};

// Merges the inputs in their order, applies the final op, and writes the result
// to every output. Built-in ops take one pass, so floats of 8 and 16 bits are
// rounded once, after the final op. One more step is taken by custom ops,
// groups of one, and divisions of integers that are not sums. It reduces tiles
// of a few thousand bytes in the first-level cache, and calls a custom merge op
// pair by pair. Errors: any error of the ops.
absl::Status Fold(DType dtype, const MergeOp& merge_op, const FinalOp& final_op,
                  const FoldBuffers& buffers);

}  // namespace tutti

#endif  // TUTTI_REDUCTION_H_
