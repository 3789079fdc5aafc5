// Double of CUDA's runtime for dlopen_nccl_runtime_test.cc: a machine with two
// GPUs and no driver, where only the thread's current GPU is kept. Defines all
// functions that code of the test calls. If one were missing, the linker would
// take the library, too, and find duplicates.

#include <cuda_runtime_api.h>

namespace {

constexpr int kNumGpus = 2;
thread_local int current_gpu = 0;

}  // namespace

cudaError_t cudaGetDevice(int* device) {
  *device = current_gpu;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= kNumGpus) return cudaErrorInvalidDevice;
  current_gpu = device;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(
    cudaStreamCaptureMode* /*mode*/) {
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorInvalidDevice ? "cudaErrorInvalidDevice" : "another";
}
const char* cudaGetErrorString(cudaError_t /*error*/) { return "an error"; }
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 0;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 0;
  return cudaSuccess;
}
