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
#include "tests/conformance/implementation_under_test.h"
#include "tutti/cluster_runtime.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {

// One member's call of a collective and what became of it.
struct GpuMpiCall {
  int device = 0;  // Of this process.
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

// A test that all processes of an MPI job run in step, each with devices on a
// GPU of its own, which is a fake: as many as the parameter says. A process
// that finds something wrong goes on, since the others wait for it.
class GpuMpiTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override;
  void TearDown() override;

  static int num_devices() { return GetParam(); }
  virtual int num_gpus() const { return 1; }  // Of this process.
  int task() const { return runtime_->cluster().this_task; }
  int num_tasks() const { return runtime_->cluster().num_tasks(); }
  bool is_last() const { return task() == num_tasks() - 1; }
  conformance::Grid grid() const {
    return {.tasks = num_tasks(), .devices = num_devices()};
  }
  FakeGpuRuntime& gpus() { return *gpus_; }

  // Whether MPI is told the addresses of the GPUs' memory.
  static bool is_cuda_aware();
  ClusterRuntime& runtime() { return *runtime_; }
  CudaDevice& device(int index) {
    return static_cast<CudaDevice&>(*runtime_->devices()[index]);
  }

  // Puts `bytes` into the tensor, on the device's compute stream.
  void Write(int device, Tensor tensor, Bytes bytes);
  Bytes Read(const Tensor& tensor) const;

  // The calls of the members here, with inputs that are still being written:
  // the next instance of the group.
  GpuMpiCalls Calls(const std::string& implementation,
                    const conformance::Case& c,
                    const conformance::Inputs& inputs);

  // The same instance once more, with the same tensors.
  static GpuMpiCalls Again(const GpuMpiCalls& calls);

  // What failed in a step is of no use for the next collective.
  void Start(GpuMpiCall& call, int64_t step = 1,
             std::shared_ptr<Cancellation> cancellation = nullptr);

  // Compares the bits of the members' outputs here with what the collective's
  // definition says, and sums with those of the schedule's order.
  void RunCase(const conformance::ImplementationUnderTest& under_test,
               const conformance::Case& c);

 private:
  std::unique_ptr<FakeGpuRuntime> gpus_;
  std::unique_ptr<ClusterRuntime> runtime_;
  std::deque<Bytes> sources_;
  InstanceKey last_instance_ = 0;
};

// The main function of such a process. With the argument "direct" MPI is taken
// for one that is CUDA-aware.
int RunGpuMpiTests(int argc, char** argv);

}  // namespace tutti

#endif  // TUTTI_GPU_TESTING_GPU_MPI_PROCESS_H_
