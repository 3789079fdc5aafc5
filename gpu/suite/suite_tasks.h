#ifndef TUTTI_GPU_SUITE_SUITE_TASKS_H_
#define TUTTI_GPU_SUITE_SUITE_TASKS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/collective_executor.h"
#include "framework/collective_executor_mgr.h"
#include "framework/collective_request.h"
#include "framework/device_manager.h"
#include "framework/tensor.h"
#include "gpu/cuda_device.h"
#include "gpu/nccl/nccl_runtime.h"
#include "gpu/suite/pending_calls.h"
#include "gpu/suite/suite_machine.h"
#include "gpu/tasks_in_process.h"

namespace tutti {

// A group of several tasks of this process (TasksInProcess), each with one
// device, on a GPU of its own, and NcclReduce among them: the sum of a byte of
// each. Belongs to one thread; the machine outlives it.
class SuiteTasks {
 public:
  // Task t is rank t and has GPU t. Errors: as CreateCudaDevices().
  static absl::StatusOr<std::unique_ptr<SuiteTasks>> Create(
      SuiteMachine& machine, int num_tasks,
      const std::shared_ptr<NcclRuntime>& nccl);

  // Ends the group.
  ~SuiteTasks();
  SuiteTasks(const SuiteTasks&) = delete;
  SuiteTasks& operator=(const SuiteTasks&) = delete;

  int size() const { return static_cast<int>(tasks_.size()); }
  CudaDevice& device(int rank) const;
  std::shared_ptr<CollectiveExecutor> executor(int rank, int64_t step) const;

  // The rank's call in this step. The rank's last one has ended.
  void Call(int rank, int64_t step, PendingCalls* calls);

  // All call, wait, and have the sum. Errors: the first of a call; INTERNAL
  // with what is found.
  absl::Status CheckSums(int64_t step);

  // Ends the present generation of the group.
  void EndGroup(absl::Status reason);

 private:
  struct Task {
    std::unique_ptr<DeviceManager> devices;
    std::unique_ptr<CollectiveExecutorMgr> executors;
    Tensor input, output;
  };

  explicit SuiteTasks(SuiteMachine& machine) : machine_(machine) {}
  absl::Status Add(int number, const std::shared_ptr<NcclRuntime>& nccl);
  absl::StatusOr<uint8_t> Read(int rank);

  SuiteMachine& machine_;
  TasksInProcess tasks_in_process_;
  std::vector<Task> tasks_;
};

}  // namespace tutti

#endif  // TUTTI_GPU_SUITE_SUITE_TASKS_H_
