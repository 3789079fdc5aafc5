#ifndef TUTTI_BENCH_GPU_SUITE_GROUP_H_
#define TUTTI_BENCH_GPU_SUITE_GROUP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/gpu/pending_calls.h"
#include "bench/gpu/suite_machine.h"
#include "framework/reduce/reduction_test_data.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "tests/cluster/tasks_in_process.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/executor.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {

// Tasks of this process (TasksInProcess), whose bytes go to each other as those
// of processes do, but for the transport.
struct TaskShape {
  int num_tasks = 2;
  int gpus_per_task = 1;
  int devices_per_gpu = 1;
  bool shares_gpus = false;  // All have the first ones; else each its own.
};

// A group of GPU devices of this process, and its members' part in collectives:
//
//   group.Write(rank, input, bytes);    On the compute streams, which no
//   group.Call(rank, request, ...);     call waits for.
//   group.Read(rank, output);
//   status = group.Finish();            Waits; reads are there now.
//
// The first error stays, and nothing else is begun: Finish() returns it.
// Belongs to one thread; the machine outlives it.
class SuiteGroup {
 public:
  // `devices_per_gpu` devices on each of the GPUs 0 to `num_gpus` - 1, with
  // NCCL or without. Errors: as CreateCudaDevices().
  static absl::StatusOr<std::unique_ptr<SuiteGroup>> Create(
      SuiteMachine& machine, int num_gpus, int devices_per_gpu,
      std::shared_ptr<NcclRuntime> nccl = nullptr);

  // The same of several tasks: the first one's devices are the first ranks.
  static absl::StatusOr<std::unique_ptr<SuiteGroup>> CreateTasks(
      SuiteMachine& machine, const TaskShape& shape,
      const std::shared_ptr<NcclRuntime>& nccl = nullptr);

  // Waits for what was begun, and ends the group.
  ~SuiteGroup();
  SuiteGroup(const SuiteGroup&) = delete;
  SuiteGroup& operator=(const SuiteGroup&) = delete;

  int size() const { return num_tasks() * devices_per_task_; }
  int num_tasks() const { return static_cast<int>(tasks_.size()); }
  int devices_per_task() const { return devices_per_task_; }
  CudaDevice& device(int rank) const;
  SuiteMachine& machine() const { return machine_; }

  // That of the rank's task. Call() and Finish() have those of step 1.
  std::shared_ptr<CollectiveExecutor> executor(int rank, int64_t step) const;

  // A request of all devices, of an instance of its own.
  CollectiveRequest Request(CollectiveOp op, DType dtype, int64_t num_elements);

  // Unset where there is no memory.
  Tensor Allocate(int rank, DType dtype, int64_t num_elements);

  // The bytes become the tensor's. REQUIRES: as many.
  void Write(int rank, const Tensor& tensor, const Bytes& bytes);

  // What the compute stream sees of the tensor, valid until the next Write() or
  // Read() after Finish(). Null after an error.
  const uint8_t* Read(int rank, const Tensor& tensor);

  // `output` is valid until Finish(). The same request each time is fastest.
  void Call(int rank, std::shared_ptr<const CollectiveRequest> request,
            Tensor input, Tensor* output);
  void Call(int rank, const CollectiveRequest& request, Tensor input,
            Tensor* output);

  // Waits for all calls and compute streams. After it everything begins anew.
  absl::Status Finish();

  // Ends the present generation of the group, of several tasks.
  void EndGroup(absl::Status reason);

 private:
  struct Task {
    std::unique_ptr<DeviceManager> devices;
    std::unique_ptr<CollectiveExecutorMgr> executors;
    std::shared_ptr<CollectiveExecutor> executor;  // Of step 1.
  };

  // Some of this host's GPUs, and the devices on each.
  struct Part {
    int task = 0;
    int first_gpu = 0;
    int num_gpus = 1;
    int devices_per_gpu = 1;
  };

  explicit SuiteGroup(SuiteMachine& machine) : machine_(machine) {}

  absl::StatusOr<std::unique_ptr<DeviceManager>> MakeDevices(
      const Part& part, std::shared_ptr<NcclRuntime> nccl) const;
  void Add(std::unique_ptr<DeviceManager> devices,
           std::unique_ptr<CollectiveExecutorMgr> executors);

  // Memory of the host, until the next after Finish(). Null after an error.
  uint8_t* TakeHostMemory(size_t num_bytes);

  SuiteMachine& machine_;
  TasksInProcess tasks_in_process_;  // Unused where there is one task.
  std::vector<Task> tasks_;
  int devices_per_task_ = 0;
  InstanceKey last_instance_ = 0;
  absl::Status status_;
  std::unique_ptr<PendingCalls> calls_;  // Null between Finish() and a begin.
};

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_SUITE_GROUP_H_
