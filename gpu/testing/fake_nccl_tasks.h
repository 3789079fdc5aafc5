#ifndef TUTTI_GPU_TESTING_FAKE_NCCL_TASKS_H_
#define TUTTI_GPU_TESTING_FAKE_NCCL_TASKS_H_

#include <climits>
#include <cstddef>
#include <cstdint>
#include <functional>
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

// Group of all GPUs of several tasks (TasksInProcess), in rank order, over
// doubles of CUDA and NCCL; for tests. Streams run only in RunAll(). Belongs to
// one thread, except device(), executor() and their results.
class FakeNcclTasks {
 public:
  struct Options {
    uint64_t seed = 1;
    int num_tasks = 1;
    int gpus_per_task = 2;
    int devices_per_gpu = 1;
    bool shares_gpus = false;       // All tasks use the GPUs of one host.
    int tasks_with_nccl = INT_MAX;  // The first ones.

    // See FakeGpuRuntime and CudaDevicesOptions.
    int64_t memory_bytes = int64_t{1} << 24;
    std::function<PeerLink(int gpu, int peer)> link;
    bool keeps_host_work = false;
    std::function<absl::Status(GpuStream stream)> on_record;
    std::optional<bool> opens_memory;
    size_t most_landing_bytes = size_t{1} << 24;

    // Executors of one task alone (CreateLocalExecutorMgr()).
    bool is_local = false;

    // NcclRuntime::WhyBlocking() of tasks from `first_that_blocks` on.
    std::string why_blocking;
    int first_that_blocks = 0;

    // Null: a simulated environment. Otherwise it outlives this object, streams
    // run independently, and RunAll() does nothing.
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

  // Runs everything, and advances the time until NCCL is checked again.
  void RunAll() {
    environment_.RunAll();
    environment_.Advance(5 * NcclGroup::kLastLook);
  }

  // Ends the present generation of the group, on all tasks.
  void EndGroup(absl::Status reason);

  // Makes a request of all devices, without a rank.
  CollectiveRequest Request(CollectiveOp op, DType dtype,
                            int64_t num_elements) const;

  Tensor Allocate(int rank, DType dtype, const TensorShape& shape);

  // Puts `bytes` into the tensor, on the device's compute stream.
  void Write(int rank, const Tensor& tensor, Bytes bytes);

  // Returns the present bytes. Fails the test if the memory is not there.
  Bytes Read(int rank, const Tensor& tensor);

  // Calls on the rank's device. Fails the test if events of a task are left
  // when its last call ends.
  void Call(int rank, CollectiveRequest request, Tensor input, Tensor* output,
            int64_t step = 1);

  // `args` have no device. Runs `done`, unless null, instead of setting
  // ended().
  void Call(int rank, CollectiveArgs args, int64_t step = 1,
            StatusCallback done = nullptr);

  // Status of each rank's last call; nothing while it runs.
  std::vector<std::optional<absl::Status>> ended() const;

  // Statuses of all calls since TakeCalls(), in order.
  std::vector<std::optional<absl::Status>> calls() const;
  std::vector<std::optional<absl::Status>> TakeCalls();

  // Destroys everything. Returns what is left: mistakes and leaks of the
  // doubles.
  std::vector<std::string> Remains();

 private:
  struct Task {
    std::unique_ptr<FakeGpuRuntime> gpus;
    std::unique_ptr<DeviceManager> devices;
    std::unique_ptr<CollectiveExecutorMgr> executors;
    int num_running = 0;  // Calls under way.
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
