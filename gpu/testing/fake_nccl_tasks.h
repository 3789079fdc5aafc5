#ifndef TUTTI_GPU_TESTING_FAKE_NCCL_TASKS_H_
#define TUTTI_GPU_TESTING_FAKE_NCCL_TASKS_H_

#include <climits>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "framework/reduce/reduction_test_data.h"
#include "gpu/nccl/nccl_group.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/fake_nccl_network.h"
#include "tests/cluster/tasks_in_process.h"
#include "tests/doubles/simulated_environment.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {

// For tests: a group of all GPUs of some tasks (TasksInProcess), in rank order,
// over doubles of CUDA and NCCL. Nothing that streams hold runs but in
// RunAll(). Belongs to one thread, but for device(), executor() and what they
// give.
class FakeNcclTasks {
 public:
  struct Options {
    uint64_t seed = 1;
    int num_tasks = 1;
    int gpus_per_task = 2;
    int devices_per_gpu = 1;
    bool shares_gpus = false;       // All tasks are on the GPUs of one host.
    int tasks_with_nccl = INT_MAX;  // From the first one on.

    // NcclRuntime::WhyBlocking() of the tasks from this one on.
    std::string why_blocking;
    int first_that_blocks = 0;

    // Null: a simulated one. Outlives this; then what streams hold runs by
    // itself, and RunAll() does nothing.
    const Environment* environment = nullptr;
  };

  explicit FakeNcclTasks(Options options);
  ~FakeNcclTasks();
  FakeNcclTasks(const FakeNcclTasks&) = delete;
  FakeNcclTasks& operator=(const FakeNcclTasks&) = delete;

  int size() const { return static_cast<int>(last_calls_.size()); }
  SimulatedEnvironment& environment() { return environment_; }
  FakeNcclNetwork& network() { return *network_; }
  FakeGpuRuntime& gpus(int rank) { return *TaskOf(rank).gpus; }
  CudaDevice& device(int rank);
  std::shared_ptr<CollectiveExecutor> executor(int rank, int64_t step = 1);

  // Also lets so much time pass that NCCL is asked again how far it is.
  void RunAll() {
    environment_.RunAll();
    environment_.Advance(5 * NcclGroup::kLastLook);
  }

  // Ends the present generation of the group, on all tasks.
  void EndGroup(absl::Status reason);

  // A request of all devices, but for the rank.
  CollectiveRequest Request(CollectiveOp op, DType dtype,
                            int64_t num_elements) const;

  Tensor Allocate(int rank, DType dtype, const TensorShape& shape);

  // Puts `bytes` into the tensor, on the device's compute stream.
  void Write(int rank, const Tensor& tensor, Bytes bytes);

  // What lies there now. Fails the test if there is nothing.
  Bytes Read(int rank, const Tensor& tensor);

  // A call of the rank's device. Fails the test if something of a device is
  // kept when the task's last one ends.
  void Call(int rank, CollectiveRequest request, Tensor input, Tensor* output,
            int64_t step = 1);

  // The call's arguments have a rank, and no device.
  void Call(int rank, CollectiveArgs args, int64_t step = 1);

  // Of each rank's last call; nothing as long as it has not ended.
  std::vector<std::optional<absl::Status>> ended() const;

  // Of all calls since TakeCalls(), in order.
  std::vector<std::optional<absl::Status>> calls() const;
  std::vector<std::optional<absl::Status>> TakeCalls();

  // Ends what lives and looks what is left: mistakes and leaks of the doubles.
  std::vector<std::string> Remains();

 private:
  struct Task {
    std::unique_ptr<FakeGpuRuntime> gpus;
    std::unique_ptr<DeviceManager> devices;
    std::unique_ptr<CollectiveExecutorMgr> executors;
    int num_running = 0;  // Calls.
  };
  Task& TaskOf(int rank) { return tasks_[rank / devices_per_task_]; }
  Task MakeTask(const Options& options, int number);

  SimulatedEnvironment environment_;
  const Environment used_environment_;
  const int devices_per_task_;
  const std::shared_ptr<FakeNcclNetwork> network_;
  TasksInProcess tasks_in_process_;
  std::vector<Task> tasks_;
  using CallPtr = std::shared_ptr<std::optional<absl::Status>>;
  std::vector<CallPtr> last_calls_, calls_;
  std::vector<std::unique_ptr<Bytes>> sources_;
};

}  // namespace tutti

#endif  // TUTTI_GPU_TESTING_FAKE_NCCL_TASKS_H_
