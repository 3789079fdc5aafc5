#ifndef TUTTI_FRAMEWORK_REDUCTION_H_
#define TUTTI_FRAMEWORK_REDUCTION_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "framework/dtype.h"
#include "framework/reduction_kind.h"

namespace tutti {

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

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_REDUCTION_H_
