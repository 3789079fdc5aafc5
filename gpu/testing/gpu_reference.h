#ifndef TUTTI_GPU_TESTING_GPU_REFERENCE_H_
#define TUTTI_GPU_TESTING_GPU_REFERENCE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "framework/reduce/reduction_test_data.h"

namespace tutti {

// Reference results of the GPU's reductions for tests, computed with
// framework/reduce/reduction_reference_testing.h.

// Reduces from left to right: `most` inputs in the first pass, `most` - 1 in
// each later one. Rounds after each pass and divides at the end. REQUIRES: at
// least one input, all of one length; `most` > 1.
Bytes ReferenceReduceInPasses(const ReductionPair& pair,
                              const std::vector<Bytes>& inputs, size_t most,
                              int64_t divisor);

// Result of GpuLocalReduce at every member (gpu_launch.h).
Bytes ReferenceGpuLocalReduce(const ReductionPair& pair,
                              const std::vector<Bytes>& inputs,
                              bool is_average);

}  // namespace tutti

#endif  // TUTTI_GPU_TESTING_GPU_REFERENCE_H_
