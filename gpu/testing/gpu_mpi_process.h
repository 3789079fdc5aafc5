#ifndef TUTTI_GPU_TESTING_GPU_MPI_PROCESS_H_
#define TUTTI_GPU_TESTING_GPU_MPI_PROCESS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "framework/reduce/reduction_test_data.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/gpu_cases.h"
#include "gtest/gtest.h"
#include "tests/conformance/case.h"
#include "tests/conformance/expectation.h"
#include "tests/conformance/tested_implementation.h"
#include "tutti/cluster_runtime.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {

// A member's call of a collective, and its result.
struct GpuMpiCall {
  int device = 0;  // Index in this process.
  CollectiveRequest request;
  CaseBuffers buffers;
  bool has_output = true;
  absl::Status status = absl::UnknownError("not ended");
  BlockingCounter ended{1};

  StatusCallback Set() {
    return [this](absl::Status ended_with) {
      status = std::move(ended_with);
      ended.DecrementCount();
    };
  }
  absl::Status Wait() {
    ended.Wait();
    return status;
  }
};
using GpuMpiCalls = std::deque<GpuMpiCall>;

// Fixture for tests that all processes of an MPI job run in step. Each process
// has a fake GPU; the parameter is the number of its devices. A process that
// finds an error goes on, because the others wait for it.
class GpuMpiTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override;
  void TearDown() override;

  static int num_devices() { return GetParam(); }
  virtual int num_gpus() const { return 1; }  // Per process.
  int task() const { return runtime_->cluster().this_task; }
  int num_tasks() const { return runtime_->cluster().num_tasks(); }
  bool is_last() const { return task() == num_tasks() - 1; }
  conformance::Grid grid() const {
    return {.tasks = num_tasks(), .devices = num_devices()};
  }
  FakeGpuRuntime& gpus() { return *gpus_; }

  // True if MPI gets the addresses of the GPUs' memory.
  static bool is_cuda_aware();
  ClusterRuntime& runtime() { return *runtime_; }
  CudaDevice& device(int index) {
    return static_cast<CudaDevice&>(*runtime_->devices()[index]);
  }

  // Puts `bytes` into the tensor, on the device's compute stream.
  void Write(int device, Tensor tensor, Bytes bytes);
  Bytes Read(const Tensor& tensor) const;

  // Makes the calls of this process's members for the next instance. Inputs are
  // still being written.
  GpuMpiCalls Calls(const std::string& implementation,
                    const conformance::Case& c,
                    const conformance::Inputs& inputs);

  // Makes the same calls with the same instance and tensors.
  static GpuMpiCalls Again(const GpuMpiCalls& calls);

  // Starts the call. After a failure, a new collective needs another step.
  void Start(GpuMpiCall& call, int64_t step = 1,
             std::shared_ptr<Cancellation> cancellation = nullptr);

  // Runs the case. Compares the bits of the outputs here with the collective's
  // definition, and sums with sums in the schedule's order.
  void RunCase(const conformance::ImplementationUnderTest& under_test,
               const conformance::Case& c);

 private:
  std::unique_ptr<FakeGpuRuntime> gpus_;
  std::unique_ptr<ClusterRuntime> runtime_;
  std::deque<Bytes> sources_;
  InstanceKey last_instance_ = 0;
};

// Main function of a process. With the argument "direct", MPI counts as
// CUDA-aware.
int RunGpuMpiTests(int argc, char** argv);

}  // namespace tutti

#endif  // TUTTI_GPU_TESTING_GPU_MPI_PROCESS_H_
