#ifndef TUTTI_GPU_KERNELS_LAUNCH_H_
#define TUTTI_GPU_KERNELS_LAUNCH_H_

#include <cuda_runtime_api.h>

#include "gpu/kernels/kernel_arguments.h"

namespace tutti::gpu {

// Puts the kernel on the stream, whose GPU is the thread's current one. Neither
// waits nor allocates, so that a graph can capture it. Defined for the pairs of
// WithReduction() and the words of WithWord().
template <class Format, class Op>
cudaError_t LaunchReduce(ReduceArguments arguments, unsigned num_blocks,
                         cudaStream_t stream);
template <class Word>
cudaError_t LaunchCopy(CopyArguments arguments, unsigned num_blocks,
                       cudaStream_t stream);

}  // namespace tutti::gpu

#endif  // TUTTI_GPU_KERNELS_LAUNCH_H_
