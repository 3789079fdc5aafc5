// Kernel behind LaunchReduce(), for the .cu files that list its instances.

#ifndef TUTTI_GPU_KERNELS_REDUCE_KERNEL_INL_H_
#define TUTTI_GPU_KERNELS_REDUCE_KERNEL_INL_H_

#include <cstddef>

#include "gpu/kernels/kernel_loops.h"
#include "gpu/kernels/launch.h"

namespace tutti::gpu {

template <class Format, class Op>
__global__ void __launch_bounds__(kThreadsPerBlock)
    ReduceKernel(const __grid_constant__ ReduceArguments arguments) {
  ReduceShare<Format, Op>(arguments,
                          size_t{blockIdx.x} * blockDim.x + threadIdx.x,
                          size_t{gridDim.x} * blockDim.x);
}

template <class Format, class Op>
LoadedKernel LoadReduce() {
  return Load(reinterpret_cast<const void*>(&ReduceKernel<Format, Op>));
}

template <class Format, class Op>
cudaError_t LaunchReduce(ReduceArguments arguments, unsigned num_blocks,
                         cudaStream_t stream) {
  void* parameters[] = {&arguments};
  return cudaLaunchKernel(
      reinterpret_cast<const void*>(&ReduceKernel<Format, Op>),
      dim3(num_blocks), dim3(kThreadsPerBlock), parameters, 0, stream);
}

}  // namespace tutti::gpu

#define TUTTI_LAUNCH_REDUCE(Format, Op)                                    \
  template LoadedKernel LoadReduce<Format, Op>();                          \
  template cudaError_t LaunchReduce<Format, Op>(ReduceArguments, unsigned, \
                                                cudaStream_t)

#endif  // TUTTI_GPU_KERNELS_REDUCE_KERNEL_INL_H_
