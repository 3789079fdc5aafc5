#ifndef TUTTI_GPU_RUNTIME_CUDA_FOUND_H_
#define TUTTI_GPU_RUNTIME_CUDA_FOUND_H_

namespace tutti {

// Versions and places that the build found, such as "13.0 in /usr/local/cuda"
// and "header 2.28.9 in /usr/include", or why it found nothing.
// third_party/cuda.bzl writes these functions.
const char* CudaFound();
const char* NcclFound();

}  // namespace tutti

#endif  // TUTTI_GPU_RUNTIME_CUDA_FOUND_H_
