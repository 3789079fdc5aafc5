#include <cstddef>
#include <cstdint>

#include "gpu/kernels/kernel_loops.h"
#include "gpu/kernels/launch.h"

namespace tutti::gpu {

template <class Word>
__global__ void __launch_bounds__(kThreadsPerBlock)
    CopyKernel(const __grid_constant__ CopyArguments arguments) {
  CopyShare<Word>(arguments, size_t{blockIdx.x} * blockDim.x + threadIdx.x,
                  size_t{gridDim.x} * blockDim.x);
}

template <class Word>
LoadedKernel LoadCopy() {
  return Load(reinterpret_cast<const void*>(&CopyKernel<Word>));
}

template <class Word>
cudaError_t LaunchCopy(CopyArguments arguments, unsigned num_blocks,
                       cudaStream_t stream) {
  void* parameters[] = {&arguments};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&CopyKernel<Word>),
                          dim3(num_blocks), dim3(kThreadsPerBlock), parameters,
                          0, stream);
}

template LoadedKernel LoadCopy<Words>();
template LoadedKernel LoadCopy<uint32_t>();
template LoadedKernel LoadCopy<uint8_t>();
template cudaError_t LaunchCopy<Words>(CopyArguments, unsigned, cudaStream_t);
template cudaError_t LaunchCopy<uint32_t>(CopyArguments, unsigned,
                                          cudaStream_t);
template cudaError_t LaunchCopy<uint8_t>(CopyArguments, unsigned, cudaStream_t);

}  // namespace tutti::gpu
