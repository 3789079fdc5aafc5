#ifndef TUTTI_GPU_RUNTIME_ON_GPU_H_
#define TUTTI_GPU_RUNTIME_ON_GPU_H_

#include <cuda_runtime_api.h>

namespace tutti {

// Makes the primary context of `gpu` the thread's current one as long as it
// lives. Without it the calls would open the GPU that is current, mostly GPU 0,
// for this process, or be made in a context of the caller's own on `gpu`.
//
// Calls are allowed while some thread captures a stream into a graph and wants
// no other thread to make calls that might not fit there, which is CUDA's
// default: ours touch no stream that is captured.
class OnGpu {
 public:
  explicit OnGpu(int gpu) : error_(cudaGetDevice(&previous_)) {
    if (error_ != cudaSuccess) return;
    error_ = cudaSetDevice(gpu);
    has_changed_ = error_ == cudaSuccess && previous_ != gpu;
    if (error_ != cudaSuccess) return;
    error_ = cudaThreadExchangeStreamCaptureMode(&capture_mode_);
    has_relaxed_ = error_ == cudaSuccess;
  }
  ~OnGpu() {
    if (has_relaxed_) {
      (void)cudaThreadExchangeStreamCaptureMode(&capture_mode_);
    }
    if (has_changed_) (void)cudaSetDevice(previous_);
  }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

  cudaError_t error() const { return error_; }

 private:
  int previous_ = 0;
  cudaError_t error_;
  bool has_changed_ = false;
  cudaStreamCaptureMode capture_mode_ = cudaStreamCaptureModeRelaxed;
  bool has_relaxed_ = false;  // And `capture_mode_` is the thread's own.
};

}  // namespace tutti

#endif  // TUTTI_GPU_RUNTIME_ON_GPU_H_
