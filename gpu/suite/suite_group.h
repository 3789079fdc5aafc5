#ifndef TUTTI_GPU_SUITE_SUITE_GROUP_H_
#define TUTTI_GPU_SUITE_SUITE_GROUP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/collective_executor.h"
#include "framework/collective_executor_mgr.h"
#include "framework/collective_request.h"
#include "framework/device_manager.h"
#include "framework/dtype.h"
#include "framework/reduction_test_data.h"
#include "framework/tensor.h"
#include "gpu/cuda_device.h"
#include "gpu/nccl/nccl_runtime.h"
#include "gpu/suite/pending_calls.h"
#include "gpu/suite/suite_machine.h"

namespace tutti {

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

  // Waits for what was begun.
  ~SuiteGroup();
  SuiteGroup(const SuiteGroup&) = delete;
  SuiteGroup& operator=(const SuiteGroup&) = delete;

  int size() const { return static_cast<int>(devices_->devices().size()); }
  CudaDevice& device(int rank) const;
  SuiteMachine& machine() const { return machine_; }

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

 private:
  SuiteGroup(SuiteMachine& machine, std::unique_ptr<DeviceManager> devices,
             std::unique_ptr<CollectiveExecutorMgr> executors);

  // Memory of the host, until the next after Finish(). Null after an error.
  uint8_t* TakeHostMemory(size_t num_bytes);

  SuiteMachine& machine_;
  const std::unique_ptr<DeviceManager> devices_;
  const std::unique_ptr<CollectiveExecutorMgr> executors_;
  const std::shared_ptr<CollectiveExecutor> executor_;
  InstanceKey last_instance_ = 0;
  absl::Status status_;
  std::unique_ptr<PendingCalls> calls_;  // Null between Finish() and a begin.
};

}  // namespace tutti

#endif  // TUTTI_GPU_SUITE_SUITE_GROUP_H_
