#ifndef TUTTI_BENCH_GPU_GPU_GROUP_H_
#define TUTTI_BENCH_GPU_GPU_GROUP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "bench/gpu/gpu_machine.h"
#include "bench/gpu/pending_calls.h"
#include "framework/reduce/reduction_test_data.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/runtime/pinned_pool.h"
#include "tests/cluster/tasks_in_process.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/executor.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {

// Devices of a group. Several tasks are those of TasksInProcess: their bytes
// take the way of processes, without a transport.
struct GroupShape {
  int num_tasks = 1;
  int gpus_per_task = 1;
  int devices_per_gpu = 1;
  bool shares_gpus =
      false;  // All tasks have the first GPUs; else each its own.
  std::shared_ptr<NcclRuntime> nccl = nullptr;
};

// A group of GPU devices of this process, and its members' part in collectives:
//
//   group.Write(rank, input, bytes);    On the compute streams, for which no
//   group.Call(rank, request, ...);     call waits.
//   group.Read(rank, output);
//   group.Finish();                     Waits; the bytes are there now.
//
// Errors throw, those of calls and streams in Finish(). Belongs to one thread;
// the machine outlives it.
class GpuGroup {
 public:
  // Devices on the first GPUs, the first task's first.
  GpuGroup(GpuMachine& machine, const GroupShape& shape);

  // Aborts what has begun since Finish(), waits for it, and ends the group.
  ~GpuGroup();
  GpuGroup(const GpuGroup&) = delete;
  GpuGroup& operator=(const GpuGroup&) = delete;

  int size() const { return num_tasks() * devices_per_task_; }
  int num_tasks() const { return static_cast<int>(tasks_.size()); }
  int devices_per_task() const { return devices_per_task_; }
  CudaDevice& device(int rank) const;
  GpuMachine& machine() const { return machine_; }

  // Executor of the rank's task. Call() and Finish() use step 1.
  std::shared_ptr<CollectiveExecutor> executor(int rank, int64_t step) const;

  // Request to all devices, with a new instance key.
  CollectiveRequest Request(CollectiveOp op, DType dtype, int64_t num_elements);

  // Tensor that begins `skipped` elements into its memory: kernels take 16
  // bytes at a time where that is aligned.
  Tensor Allocate(int rank, DType dtype, int64_t num_elements,
                  int64_t skipped = 0);

  // Copies the bytes to the tensor. REQUIRES: as many.
  void Write(int rank, const Tensor& tensor, const Bytes& bytes);

  // Bytes that the compute stream sees in the tensor, valid until the next
  // Write() or Read() after Finish().
  const uint8_t* Read(int rank, const Tensor& tensor);

  // `output` is valid until Finish(). The same request each time is fastest.
  void Call(int rank, std::shared_ptr<const CollectiveRequest> request,
            Tensor input, Tensor* output);
  void Call(int rank, const CollectiveRequest& request, Tensor input,
            Tensor* output);

  // Waits for all calls and compute streams.
  void Finish() { Ok(TryToFinish()); }

  // Finish() without a throw: returns the first error.
  absl::Status TryToFinish();

  // Ends the present generation of a group of several tasks.
  void EndGroup(absl::Status reason);

 private:
  struct Task {
    std::unique_ptr<DeviceManager> devices;
    std::unique_ptr<CollectiveExecutorMgr> executors;
    std::shared_ptr<CollectiveExecutor> executor;  // For step 1.
  };

  void AddTask(const GroupShape& shape, int task);

  // Begins something, and takes memory of the host for its copy.
  uint8_t* TakeHostMemory(size_t num_bytes);

  GpuMachine& machine_;
  TasksInProcess tasks_in_process_;  // Unused where there is one task.
  std::vector<Task> tasks_;
  int devices_per_task_ = 0;
  InstanceKey last_instance_ = 0;
  std::unique_ptr<PendingCalls> calls_;  // Null where nothing has begun.
  std::vector<PinnedPool::Buffer> host_buffers_;
};

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_GPU_GROUP_H_
