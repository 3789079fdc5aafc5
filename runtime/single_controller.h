#ifndef TUTTI_RUNTIME_SINGLE_CONTROLLER_H_
#define TUTTI_RUNTIME_SINGLE_CONTROLLER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/collective_request.h"
#include "framework/dtype.h"
#include "framework/environment.h"
#include "framework/merge_op.h"
#include "framework/mutex.h"
#include "framework/reduction_kind.h"
#include "framework/tensor.h"
#include "framework/tensor_shape.h"
#include "resolvers/local_group.h"

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
  explicit SingleController(const Environment& environment)
      : environment_(environment) {}
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
      absl::Span<const Tensor> tensors, const AllReduceOptions& options = {})
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // What calls alike have in common; their ops are not custom.
  struct Kind {
    DType dtype = DType::kFloat32;
    TensorShape shape;
    ReductionKind reduction = ReductionKind::kSum;
    std::string final_op;  // Its name.
    std::string implementation;
    std::vector<int> subdiv_offsets;
    std::vector<int> rank_list;

    friend bool operator==(const Kind&, const Kind&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Kind& kind) {
      return H::combine(std::move(h), kind.dtype, kind.shape.dims(),
                        kind.reduction, kind.final_op, kind.implementation,
                        kind.subdiv_offsets, kind.rank_list);
    }
  };
  static Kind KindOf(const CollectiveRequest& request);

  // Devices, and the instances of their one group that they have run.
  struct Devices {
    std::shared_ptr<LocalGroup> group;
    InstanceKey last_instance = 0;
    absl::flat_hash_map<Kind, InstanceKey> instances;
  };

  // Where a call runs.
  struct Place {
    std::shared_ptr<LocalGroup> group;
    InstanceKey instance = 0;
  };
  absl::StatusOr<Place> PlaceFor(const CollectiveRequest& request,
                                 int num_tasks, int devices_per_task)
      ABSL_LOCKS_EXCLUDED(mu_);

  const Environment environment_;
  std::atomic<int64_t> num_calls_{0};
  Mutex mu_;
  std::map<std::pair<int, int>, Devices> devices_
      ABSL_GUARDED_BY(mu_);  // By tasks and devices per task.
};

}  // namespace tutti

#endif  // TUTTI_RUNTIME_SINGLE_CONTROLLER_H_
