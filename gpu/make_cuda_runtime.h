#ifndef TUTTI_GPU_MAKE_CUDA_RUNTIME_H_
#define TUTTI_GPU_MAKE_CUDA_RUNTIME_H_

#include <cstdint>
#include <memory>

#include "gpu/gpu_runtime.h"

namespace tutti {

struct CudaRuntimeOptions {
  // How much freed memory of each GPU is kept for the next allocations, which
  // need not ask the driver then. More is given back to other programs when
  // this one waits for a GPU (cudaStreamSynchronize and the like), which Tutti
  // never does. 1 GiB.
  uint64_t kept_bytes = uint64_t{1} << 30;
};

// GpuRuntime over the CUDA runtime, which is linked in, and the driver: without
// one, every call returns UNAVAILABLE. GPUs before compute capability 8.0 are
// refused as UNIMPLEMENTED.
//
// Each call works in the primary context of its GPU. A thread that had another
// context current has its GPU's primary one afterwards, and one that had none
// that of GPU 0.
std::unique_ptr<GpuRuntime> MakeCudaRuntime(
    const CudaRuntimeOptions& options = {});

}  // namespace tutti

#endif  // TUTTI_GPU_MAKE_CUDA_RUNTIME_H_
