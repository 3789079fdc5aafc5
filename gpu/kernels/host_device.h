#ifndef TUTTI_GPU_KERNELS_HOST_DEVICE_H_
#define TUTTI_GPU_KERNELS_HOST_DEVICE_H_

// Marks functions that nvcc compiles for host and device. Other compilers
// compile them for the host only.
#ifdef __CUDACC__
#define TUTTI_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define TUTTI_HOST_DEVICE inline
#endif

// Unrolls a loop whose length is known at compile time.
#ifdef __CUDA_ARCH__
#define TUTTI_UNROLL _Pragma("unroll")
#else
#define TUTTI_UNROLL
#endif

#endif  // TUTTI_GPU_KERNELS_HOST_DEVICE_H_
