#ifndef TUTTI_BENCH_GPU_SUITE_TASKS_H_
#define TUTTI_BENCH_GPU_SUITE_TASKS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/gpu/pending_calls.h"
#include "bench/gpu/suite_group.h"
#include "bench/gpu/suite_machine.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "tutti/executor.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {

// A group of several tasks of this process, each with one device, on a GPU of
// its own, and NcclReduce among them in steps of the caller's: the sum of a
// byte of each. Belongs to one thread; the machine outlives it.
class SuiteTasks {
 public:
  // Task t is rank t and has GPU t. Errors: as CreateCudaDevices().
  static absl::StatusOr<std::unique_ptr<SuiteTasks>> Create(
      SuiteMachine& machine, int num_tasks,
      const std::shared_ptr<NcclRuntime>& nccl);

  SuiteTasks(const SuiteTasks&) = delete;
  SuiteTasks& operator=(const SuiteTasks&) = delete;

  int size() const { return group_->size(); }
  CudaDevice& device(int rank) const { return group_->device(rank); }
  std::shared_ptr<CollectiveExecutor> executor(int rank, int64_t step) const {
    return group_->executor(rank, step);
  }

  // The rank's call in this step. The rank's last one has ended.
  void Call(int rank, int64_t step, PendingCalls* calls);

  // All call, wait, and have the sum. Errors: the first of a call; INTERNAL
  // with what is found.
  absl::Status CheckSums(int64_t step);

  // Ends the present generation of the group.
  void EndGroup(absl::Status reason) { group_->EndGroup(std::move(reason)); }

 private:
  explicit SuiteTasks(std::unique_ptr<SuiteGroup> group)
      : machine_(group->machine()),
        group_(std::move(group)),
        inputs_(group_->size()),
        outputs_(group_->size()) {}

  absl::Status MakeTensors(int rank);
  absl::StatusOr<uint8_t> Read(int rank);

  SuiteMachine& machine_;
  const std::unique_ptr<SuiteGroup> group_;
  std::vector<Tensor> inputs_, outputs_;
};

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_SUITE_TASKS_H_
