#ifndef TUTTI_GPU_RUNTIME_CUDA_STATUS_H_
#define TUTTI_GPU_RUNTIME_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tutti {

// Status of `call` on `gpu`; a negative `gpu` stands for no GPU. Uses the codes
// of GpuRuntime (tutti/gpu_devices.h). Clears the error in CUDA: later calls of
// the thread do not report it.
absl::Status CudaStatus(cudaError_t error, absl::string_view call,
                        int gpu = -1);

// True if the GPU is unusable for this process: all later calls on it return
// this error.
bool SpoilsGpu(cudaError_t error);

// Checks for device code for this compute capability. Errors: UNIMPLEMENTED.
absl::Status CheckCapability(int gpu, int major, int minor);

}  // namespace tutti

#endif  // TUTTI_GPU_RUNTIME_CUDA_STATUS_H_
