#ifndef TUTTI_GPU_KERNELS_HOST_DEVICE_H_
#define TUTTI_GPU_KERNELS_HOST_DEVICE_H_

// Marks what nvcc compiles for the host and for the device, and every other
// compiler for the host only.
#ifdef __CUDACC__
#define TUTTI_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define TUTTI_HOST_DEVICE inline
#endif

// Before a loop whose length is known when it is compiled.
#ifdef __CUDA_ARCH__
#define TUTTI_UNROLL _Pragma("unroll")
#else
#define TUTTI_UNROLL
#endif

#endif  // TUTTI_GPU_KERNELS_HOST_DEVICE_H_
