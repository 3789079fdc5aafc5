#ifndef TUTTI_LOCAL_RUNTIME_H_
#define TUTTI_LOCAL_RUNTIME_H_

// Runtimes of one process: an executor manager for devices of the caller's
// own, a group of CPU devices with calls that wait, and a controller whose
// one thread owns the tensors of all devices.

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

// All that collectives within one process need: an executor manager with the
// local resolvers and transport. `environment`'s parts and `devices` outlive
// every call; `rules` may be null. Errors: as CollectiveExecutorMgr::Create and
// CheckRules.
absl::StatusOr<std::unique_ptr<CollectiveExecutorMgr>> CreateLocalExecutorMgr(
    const Environment& environment, const DeviceManager* devices,
    std::shared_ptr<const SelectionRules> rules = nullptr);

// CPU devices of this process, and a thread that may block: runs a collective
// on all of them and waits. For tools, tests and programs that have no step of
// their own to go on with.
//
// Thread-safe. `environment`'s parts outlive the group.
class LocalGroup {
 public:
  // `rules` may be null. Errors: as DeviceManager::CreateCpu and
  // CreateLocalExecutorMgr.
  static absl::StatusOr<std::unique_ptr<LocalGroup>> Create(
      const Environment& environment, int num_tasks, int devices_per_task,
      std::shared_ptr<const SelectionRules> rules = nullptr);
  LocalGroup(const LocalGroup&) = delete;
  LocalGroup& operator=(const LocalGroup&) = delete;

  const std::vector<Device*>& devices() const { return devices_->devices(); }
  CollectiveExecutorMgr& manager() { return *manager_; }

  // Runs the calls in order of the span, in step `step_id`, and waits for all.
  // A call without a device gets the device of its place in the span. The
  // statuses are in the same order.
  std::vector<absl::Status> RunEach(int64_t step_id,
                                    absl::Span<CollectiveArgs> calls);

  // The same; OK if all are, else the first that is not.
  absl::Status Run(int64_t step_id, absl::Span<CollectiveArgs> calls);

  // One collective on all devices, in step `step_id`: inputs[i] is what rank i
  // brings, unset where it has none, and the result what each rank gets, in
  // memory of its own. A member's dtype and shape are those of its input, else
  // those of `request`; the source of a broadcast is who has an input. An
  // instance key serves one kind of request. All ask for their ranks: other
  // calls of the same group key have to ask for the same. Errors: also
  // INVALID_ARGUMENT unless there is one input for each device.
  absl::StatusOr<std::vector<Tensor>> Run(int64_t step_id,
                                          CollectiveRequest request,
                                          absl::Span<const Tensor> inputs);

 private:
  LocalGroup(std::unique_ptr<DeviceManager> devices,
             std::unique_ptr<CollectiveExecutorMgr> manager);

  const std::unique_ptr<DeviceManager> devices_;
  const std::unique_ptr<CollectiveExecutorMgr> manager_;
};

// How SingleController::AllReduce() goes about it. Tensors stand for devices
// here: number i is that of tensor i.
struct AllReduceOptions {
  // A registered name. Empty: RingReduce with `ring_order` or `num_subchunks`,
  // ShuffleReduce with `gather_devices`, else the best one.
  std::string algorithm;

  // The tensors lie on so many tasks, equally many on each, task after task.
  int num_tasks = 1;

  // So many rings at a time, each for a piece of every chunk: ring k starts k
  // devices further in each task, so there are at most as many as devices per
  // task. 0: as many as suit the size.
  int num_subchunks = 0;

  // All devices in their order around the ring. Empty: task after task.
  std::vector<int> ring_order;

  // Each reduces one piece and brings it to all. Empty: all do.
  std::vector<int> gather_devices;

  MergeOp reduction;  // Sum.
  FinalOp final_op;   // None.
};

// Collectives for a runtime whose one thread of control owns the tensors of all
// devices: a function from tensors to tensors, with no groups, keys or steps.
//
// Calls alike (the same options, dtype and shape) are settled and planned once.
// Custom ops are known by their names, so those with one are settled each time:
// another function may have the name.
//
// Thread-safe. For each number of tensors and tasks that it has seen it keeps
// devices and what was settled for up to 1,024 calls that differ, or 65,536
// divided by the tensors if that is less, of which each with a custom op is
// one; then it begins anew. `environment`'s parts outlive it.
class SingleController {
 public:
  explicit SingleController(const Environment& environment);
  ~SingleController();
  SingleController(const SingleController&) = delete;
  SingleController& operator=(const SingleController&) = delete;

  // For each tensor the reduction of all, in its shape and in memory of its
  // own. Blocks until it is done, which work of `environment`'s queue must not.
  //
  // Errors say what was given: NOT_FOUND for an unknown algorithm;
  // INVALID_ARGUMENT if there are no tensors, if they differ in dtype or shape,
  // for a ring of fewer than two, and for options that do not fit the tensors,
  // the algorithm or each other.
  absl::StatusOr<std::vector<Tensor>> AllReduce(
      absl::Span<const Tensor> tensors, const AllReduceOptions& options = {});

 private:
  class Groups;

  const std::unique_ptr<Groups> groups_;
};

}  // namespace tutti

#endif  // TUTTI_LOCAL_RUNTIME_H_
