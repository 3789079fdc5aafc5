#ifndef TUTTI_GPU_KERNELS_LAUNCH_H_
#define TUTTI_GPU_KERNELS_LAUNCH_H_

#include <cuda_runtime_api.h>

#include "gpu/kernels/kernel_arguments.h"

namespace tutti::gpu {

// All are for the thread's current GPU, and defined for the pairs of
// WithReduction() and the words of WithWord().

struct LoadedKernel {
  cudaError_t error = cudaSuccess;
  int blocks_per_multiprocessor = 0;  // That run at a time.
};

// CUDA loads a kernel when it is first needed, which may wait for all that runs
// on the GPU; this does it now.
template <class Format, class Op>
LoadedKernel LoadReduce();
template <class Word>
LoadedKernel LoadCopy();

// Puts the kernel on the stream. Once it is loaded, this neither waits nor
// allocates, so that a graph can capture it.
template <class Format, class Op>
cudaError_t LaunchReduce(ReduceArguments arguments, unsigned num_blocks,
                         cudaStream_t stream);
template <class Word>
cudaError_t LaunchCopy(CopyArguments arguments, unsigned num_blocks,
                       cudaStream_t stream);

}  // namespace tutti::gpu

#endif  // TUTTI_GPU_KERNELS_LAUNCH_H_
