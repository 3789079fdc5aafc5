#ifndef TUTTI_FRAMEWORK_REDUCE_REDUCTION_REFERENCE_TESTING_H_
#define TUTTI_FRAMEWORK_REDUCE_REDUCTION_REFERENCE_TESTING_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

// Reference for tests: the functions of reduction.h, written as simply as
// possible, one element at a time. Shares no code with them. Same contracts,
// except that `kind` and `dtype` must pass CheckSupported().
void ReferenceReduce(ReductionKind kind, DType dtype, const void* left,
                     const void* right, void* into, size_t num_elements);
void ReferenceReduceMany(ReductionKind kind, DType dtype,
                         absl::Span<const uint8_t* const> inputs, void* into,
                         size_t num_elements, int64_t divisor);
void ReferenceDivideBy(DType dtype, void* values, size_t num_elements,
                       int64_t divisor);
void ReferenceMultiplyBy(DType dtype, void* values, size_t num_elements,
                         double factor);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_REDUCE_REDUCTION_REFERENCE_TESTING_H_
