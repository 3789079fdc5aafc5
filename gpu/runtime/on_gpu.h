#ifndef TUTTI_GPU_RUNTIME_ON_GPU_H_
#define TUTTI_GPU_RUNTIME_ON_GPU_H_

#include <cuda_runtime_api.h>

namespace tutti {

// Makes the primary context of `gpu` current for the thread, until destruction.
// Without it, calls would open the current GPU for this process, mostly GPU 0.
// Or they would use a context of the caller on `gpu`.
//
// Allows calls while another thread captures a stream into a graph. By default
// CUDA then forbids calls of other threads that might not fit the graph. Calls
// under OnGpu are safe: they touch no stream under capture.
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
  bool has_relaxed_ = false;  // `capture_mode_` is the thread's mode.
};

}  // namespace tutti

#endif  // TUTTI_GPU_RUNTIME_ON_GPU_H_
