#ifndef TUTTI_LOCAL_RUNTIME_H_
#define TUTTI_LOCAL_RUNTIME_H_

// Runtimes of one process: an executor manager for the caller's devices; a
// group of CPU devices with blocking calls; and a controller, for programs in
// which one thread owns the tensors of all devices.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/reduction.h"
#include "tutti/selection.h"
#include "tutti/tensor.h"

namespace tutti {

// Creates an executor manager with the local resolvers and transport, for
// collectives within one process. The parts of `environment` and `devices`
// outlive every call. `rules` may be null. Errors: as
// CollectiveExecutorMgr::Create and CheckRules.
absl::StatusOr<std::unique_ptr<CollectiveExecutorMgr>> CreateLocalExecutorMgr(
    const Environment& environment, const DeviceManager* devices,
    std::shared_ptr<const SelectionRules> rules = nullptr);

// Devices of this process. Runs a collective on all of them and blocks until it
// ends. For tools, tests and programs without asynchronous steps.
//
// Thread-safe. The parts of `environment` outlive the group.
class LocalGroup {
 public:
  // `rules` may be null. Errors: as DeviceManager::CreateCpu and
  // CreateLocalExecutorMgr.
  static absl::StatusOr<std::unique_ptr<LocalGroup>> Create(
      const Environment& environment, int num_tasks, int devices_per_task,
      std::shared_ptr<const SelectionRules> rules = nullptr);

  // Group of the first `size` devices of the caller, which outlive it. Errors:
  // INVALID_ARGUMENT for more than there are; as CreateLocalExecutorMgr.
  static absl::StatusOr<std::unique_ptr<LocalGroup>> Create(
      const Environment& environment, const DeviceManager* devices, size_t size,
      std::shared_ptr<const SelectionRules> rules = nullptr);
  LocalGroup(const LocalGroup&) = delete;
  LocalGroup& operator=(const LocalGroup&) = delete;

  const std::vector<Device*>& devices() const { return devices_; }
  CollectiveExecutorMgr& manager() { return *manager_; }

  // Runs the calls in order of the span, in step `step_id`, and waits for all.
  // A call without a device gets the device at its index. Returns the statuses
  // in the same order.
  std::vector<absl::Status> RunEach(int64_t step_id,
                                    absl::Span<CollectiveArgs> calls);

  // Runs the calls likewise. Returns the first error, else OK.
  absl::Status Run(int64_t step_id, absl::Span<CollectiveArgs> calls);

  // Runs one collective on all devices, in step `step_id`. inputs[i] is the
  // input of rank i, unset if it has none. Returns the output of each rank, in
  // separate memory.
  //
  // A member takes dtype and shape from its input, else from `request`. The
  // source of a broadcast is the member with an input. An instance key serves
  // one kind of request. All members set their ranks, so other calls with the
  // same group key must set the same ranks. Errors: as Run() above;
  // INVALID_ARGUMENT unless there is one input per device.
  absl::StatusOr<std::vector<Tensor>> Run(int64_t step_id,
                                          CollectiveRequest request,
                                          absl::Span<const Tensor> inputs);

 private:
  LocalGroup(std::unique_ptr<DeviceManager> owned, std::vector<Device*> devices,
             std::unique_ptr<CollectiveExecutorMgr> manager);

  const std::unique_ptr<DeviceManager>
      owned_;  // Null for the caller's devices.
  const std::vector<Device*> devices_;
  const std::unique_ptr<CollectiveExecutorMgr> manager_;
};

// Options of SingleController::AllReduce(). Device i here means tensor i.
struct AllReduceOptions {
  // A registered name. Empty: RingReduce with `ring_order` or `num_subchunks`,
  // ShuffleReduce with `gather_devices`, else the best algorithm.
  std::string algorithm;

  // Number of tasks. The tensors are spread evenly over them, task after task;
  // the first tasks have one more where they do not divide. 1 on devices of the
  // caller, whose names say their tasks.
  int num_tasks = 1;

  // Number of concurrent rings, each for a piece of every chunk. Ring k starts
  // k * (devices per task / num_subchunks) devices further in each task, as in
  // TensorFlow's build_ring_all_reduce(). At most the devices of the smallest
  // task. 0: as many as suit the size.
  int num_subchunks = 0;

  // All devices in their order around the ring. Empty: task after task.
  std::vector<int> ring_order;

  // Devices that each reduce one piece and send it to all. Empty: all devices.
  // Each has a tensor; TensorFlow's gather_devices may have none.
  std::vector<int> gather_devices;

  MergeOp reduction;  // Default: sum.
  FinalOp final_op;   // Default: none.
};

// All-reduces for a program in which one thread owns the tensors of all
// devices: a function from tensors to tensors, without groups, keys or steps.
//
// Equal calls (same options, dtype and shape) are settled and planned once.
// Custom ops are known only by name, and a name may get another function. So
// calls with custom ops are settled each time.
//
// Thread-safe. Keeps devices for each number of tensors and tasks seen. Also
// keeps settled calls: up to 1,024, or 65,536 divided by the number of tensors
// if that is less; each call with a custom op counts as one. Beyond that it
// drops them and starts again. The parts of `environment` outlive it.
class SingleController {
 public:
  // Makes CPU devices for the tensors, which are in host memory.
  explicit SingleController(const Environment& environment);

  // Tensor i is in the memory of devices->devices()[i], such as a GPU, and so
  // is its reduction. The devices outlive the controller. Link
  // //gpu:collectives and more for GPUs.
  SingleController(const Environment& environment,
                   const DeviceManager* devices);
  ~SingleController();
  SingleController(const SingleController&) = delete;
  SingleController& operator=(const SingleController&) = delete;

  // Returns for each tensor the reduction of all, in its shape and in separate
  // memory. Blocks until done, so never call it on a thread of `environment`'s
  // queue.
  //
  // Errors include the values given: NOT_FOUND for an unknown algorithm;
  // INVALID_ARGUMENT for no tensors, for tensors that differ in dtype or shape,
  // for a tensor outside its device's memory, and for a ring of fewer than two.
  // Likewise for options that do not fit the tensors, the algorithm or each
  // other.
  absl::StatusOr<std::vector<Tensor>> AllReduce(
      absl::Span<const Tensor> tensors, const AllReduceOptions& options = {});

 private:
  class Groups;

  const std::unique_ptr<Groups> groups_;
};

}  // namespace tutti

#endif  // TUTTI_LOCAL_RUNTIME_H_
