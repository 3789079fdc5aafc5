#ifndef TUTTI_BENCH_GPU_CUDA_TIMING_H_
#define TUTTI_BENCH_GPU_CUDA_TIMING_H_

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/gpu/gpu_timing.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// GpuTiming of one GPU, by CUDA events and graphs. For streams of CudaRuntime.
class CudaTiming : public GpuTiming {
 public:
  static absl::StatusOr<std::unique_ptr<CudaTiming>> Create(int gpu);
  ~CudaTiming() override;
  CudaTiming(const CudaTiming&) = delete;
  CudaTiming& operator=(const CudaTiming&) = delete;

  absl::Status Start(GpuStream stream) override;
  absl::Status Stop(GpuStream stream) override;
  absl::StatusOr<double> Seconds() override;
  absl::StatusOr<int> Mark(GpuStream stream) override;
  absl::StatusOr<double> SecondsBetween(int from, int to) override;
  absl::StatusOr<std::unique_ptr<GpuGraph>> Capture(
      GpuStream stream, absl::FunctionRef<absl::Status()> enqueue) override;

 private:
  explicit CudaTiming(int gpu) : gpu_(gpu) {}

  absl::StatusOr<double> Between(cudaEvent_t from, cudaEvent_t to) const;
  absl::Status Record(cudaEvent_t event, GpuStream stream) const;

  const int gpu_;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;  // Const once created.
  std::vector<cudaEvent_t> marks_;
};

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_CUDA_TIMING_H_
