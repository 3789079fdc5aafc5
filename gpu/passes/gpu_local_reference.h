#ifndef TUTTI_GPU_PASSES_GPU_LOCAL_REFERENCE_H_
#define TUTTI_GPU_PASSES_GPU_LOCAL_REFERENCE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "framework/reduce/reduction_test_data.h"

namespace tutti {

// For tests: what the GPU's reductions promise, by
// framework/reduce/reduction_reference.h.

// The inputs from left to right, `most` of them at first, then `most` - 1 each
// time, and rounded as often; divided at the end. REQUIRES: inputs of one
// length, at least one; `most` > 1.
Bytes ReferenceReduceInPasses(const ReductionPair& pair,
                              const std::vector<Bytes>& inputs, size_t most,
                              int64_t divisor);

// What every member of GpuLocalReduce gets (split_reduction.h).
Bytes ReferenceGpuLocalReduce(const ReductionPair& pair,
                              const std::vector<Bytes>& inputs,
                              bool is_average);

}  // namespace tutti

#endif  // TUTTI_GPU_PASSES_GPU_LOCAL_REFERENCE_H_
