#ifndef TUTTI_GPU_KERNELS_LAUNCH_H_
#define TUTTI_GPU_KERNELS_LAUNCH_H_

#include <cuda_runtime_api.h>

#include "gpu/kernels/kernel_arguments.h"

namespace tutti::gpu {

// All functions use the thread's current GPU. They are defined for the pairs of
// WithReduction() and the words of WithWord().

struct LoadedKernel {
  cudaError_t error = cudaSuccess;
  int blocks_per_multiprocessor = 0;  // Running at a time.
};

inline LoadedKernel Load(const void* kernel) {
  LoadedKernel loaded;
  cudaFuncAttributes attributes = {};
  loaded.error = cudaFuncGetAttributes(&attributes, kernel);
  if (loaded.error != cudaSuccess) return loaded;
  loaded.error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &loaded.blocks_per_multiprocessor, kernel, kThreadsPerBlock, 0);
  return loaded;
}

// Loads a kernel now. Without it, CUDA loads the kernel at its first launch,
// and may then wait for everything that runs on the GPU.
template <class Format, class Op>
LoadedKernel LoadReduce();
template <class Word>
LoadedKernel LoadCopy();

// Puts the kernel on the stream. Once the kernel is loaded, this neither waits
// nor allocates: a graph can capture it.
template <class Format, class Op>
cudaError_t LaunchReduce(ReduceArguments arguments, unsigned num_blocks,
                         cudaStream_t stream);
template <class Word>
cudaError_t LaunchCopy(CopyArguments arguments, unsigned num_blocks,
                       cudaStream_t stream);

}  // namespace tutti::gpu

#endif  // TUTTI_GPU_KERNELS_LAUNCH_H_
