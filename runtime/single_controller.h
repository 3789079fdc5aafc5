#ifndef TUTTI_RUNTIME_SINGLE_CONTROLLER_H_
#define TUTTI_RUNTIME_SINGLE_CONTROLLER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/environment.h"
#include "framework/merge_op.h"
#include "framework/tensor.h"

namespace tutti {

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

#endif  // TUTTI_RUNTIME_SINGLE_CONTROLLER_H_
