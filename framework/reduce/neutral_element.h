#ifndef TUTTI_FRAMEWORK_REDUCE_NEUTRAL_ELEMENT_H_
#define TUTTI_FRAMEWORK_REDUCE_NEUTRAL_ELEMENT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

// Fills host memory, aligned to elements, with the neutral element of the
// reduction: x (+) neutral has the value of x, and its bits unless x is NaN, or
// infinite in a float of 8 bits. A sum of floats has -0. In a product of
// complex numbers, 1 + 0i keeps finite values; signs of zeros may change.
// Errors: as CheckSupported(); UNIMPLEMENTED for a reduction without one.
absl::Status FillWithNeutral(ReductionKind kind, DType dtype, void* values,
                             int64_t num_elements);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_REDUCE_NEUTRAL_ELEMENT_H_
