#ifndef TUTTI_BENCH_GPU_CUDA_MACHINE_H_
#define TUTTI_BENCH_GPU_CUDA_MACHINE_H_

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/gpu/gpu_machine.h"
#include "bench/gpu/launch_trace.h"
#include "bench/gpu/waiter.h"
#include "gpu/runtime/cuda_runtime.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// Exit status of the programs, beside those of EXIT_SUCCESS and EXIT_FAILURE.
inline constexpr int kBadUsage = 2;
inline constexpr int kNoGpu = 3;

// GpuTiming of GPU 0 by CUDA events and graphs, for streams of CudaRuntime.
class CudaTiming : public GpuTiming {
 public:
  CudaTiming() = default;
  ~CudaTiming() override;
  CudaTiming(const CudaTiming&) = delete;
  CudaTiming& operator=(const CudaTiming&) = delete;

  // Before all else, and once.
  absl::Status Init();

  absl::Status Start(GpuStream stream) override;
  absl::Status Stop(GpuStream stream) override;
  absl::StatusOr<double> Seconds() override;
  absl::StatusOr<std::unique_ptr<GpuGraph>> Capture(
      GpuStream stream, absl::FunctionRef<absl::Status()> enqueue) override;

 private:
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
};

// GPUs and NCCL of this machine. Ends the program where a call does not end in
// two minutes, since GPUs may still use the memory of the caller.
class CudaMachine {
 public:
  // Errors: NOT_FOUND if there is no GPU; as CUDA.
  static absl::StatusOr<std::unique_ptr<CudaMachine>> Create(
      const CheckScale& scale);

  GpuMachine& machine() { return *machine_; }

  // A line about each GPU, and one about NCCL.
  std::vector<std::string> Description();

 private:
  CudaMachine();

  const DefaultEnvironment environment_;
  TracedRuntime<CudaRuntime> runtime_;
  CudaTiming timing_;
  BlockingWaiter waiter_;
  std::unique_ptr<GpuMachine> machine_;  // Set once there is a GPU.
};

// Says on the standard error why `program` cannot run. Returns its exit status.
int ExitStatusWithout(const std::string& program, const absl::Status& status);

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_CUDA_MACHINE_H_
