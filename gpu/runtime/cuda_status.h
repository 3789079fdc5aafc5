#ifndef TUTTI_GPU_RUNTIME_CUDA_STATUS_H_
#define TUTTI_GPU_RUNTIME_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tutti {

// What `call` on `gpu`, or on none in particular if that is negative, returned.
// The codes are those of gpu_runtime.h. Takes the error back from CUDA, so that
// no later call of the thread finds it.
absl::Status CudaStatus(cudaError_t error, absl::string_view call,
                        int gpu = -1);

// Whether the GPU can do nothing more for this process: all later calls for it
// return this.
bool SpoilsGpu(cudaError_t error);

// Whether there is device code for a GPU of this compute capability. Errors:
// UNIMPLEMENTED.
absl::Status CheckCapability(int gpu, int major, int minor);

}  // namespace tutti

#endif  // TUTTI_GPU_RUNTIME_CUDA_STATUS_H_
