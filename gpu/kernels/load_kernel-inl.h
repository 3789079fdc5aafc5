// Implementation of LoadReduce() and LoadCopy(), for the .cu files.

#ifndef TUTTI_GPU_KERNELS_LOAD_KERNEL_INL_H_
#define TUTTI_GPU_KERNELS_LOAD_KERNEL_INL_H_

#include "gpu/kernels/kernel_loops.h"
#include "gpu/kernels/launch.h"

namespace tutti::gpu {

inline LoadedKernel Load(const void* kernel) {
  LoadedKernel loaded;
  cudaFuncAttributes attributes = {};
  loaded.error = cudaFuncGetAttributes(&attributes, kernel);
  if (loaded.error != cudaSuccess) return loaded;
  loaded.error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &loaded.blocks_per_multiprocessor, kernel, kThreadsPerBlock, 0);
  return loaded;
}

}  // namespace tutti::gpu

#endif  // TUTTI_GPU_KERNELS_LOAD_KERNEL_INL_H_
