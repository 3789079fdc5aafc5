#ifndef TUTTI_GPU_RUNTIME_SPLIT_REDUCTION_H_
#define TUTTI_GPU_RUNTIME_SPLIT_REDUCTION_H_

#include <vector>

#include "gpu/kernels/gpu_reduction.h"
#include "gpu/runtime/gpu_launch.h"

namespace tutti {

// Cuts a reduction of any number of buffers into launches.
//
// Up to 8 inputs and outputs are one pass, which reads every input and writes
// every output once. Of more inputs, the first pass takes 8 and sets the result
// aside, each further one takes that and up to 7 more:
//
//   inputs   0 .. 7   8 .. 14   15 .. 17
//             \ | /    | | /     | | /
//   passes     a  ---->  a  ----->  outputs / divisor
//
// So the inputs are reduced from left to right whatever their number. Only
// float16 and bfloat16 differ in bits from one pass: they are rounded each time
// they are set aside. Of more than 8 outputs, those after the eighth are copies
// of the first.

// Whether SplitReduction() needs a scratch of `num_elements`.
bool NeedsScratch(const GpuReduction& reduction);

std::vector<GpuLaunch> SplitReduction(const GpuReduction& reduction,
                                      void* scratch);

}  // namespace tutti

#endif  // TUTTI_GPU_RUNTIME_SPLIT_REDUCTION_H_
