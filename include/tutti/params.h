#ifndef TUTTI_PARAMS_H_
#define TUTTI_PARAMS_H_

// Params: what a request becomes once its group and instance are settled,
// and the interfaces that settle it: ParamResolverInterface,
// DeviceResolverInterface and StepSequenceInterface. Params are immutable
// once completed, and the members of a process share them.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/tensor.h"

namespace tutti {

// How the ranks of a group lie on tasks (processes): all that an algorithm may
// know of the machine. Immutable.
class GroupLayout {
 public:
  // `task_of_rank[r]` is any number that names the task of rank r. Errors:
  // INVALID_ARGUMENT if there is no rank.
  static absl::StatusOr<GroupLayout> Create(absl::Span<const int> task_of_rank);

  // Ranks 0..d-1 on the first task, d..2d-1 on the second and so on. Values
  // below one count as one.
  static GroupLayout Uniform(int num_tasks, int devices_per_task);

  int size() const { return static_cast<int>(task_of_rank_.size()); }
  int num_tasks() const { return static_cast<int>(tasks_.size()); }

  // Which entry of tasks() the rank is in.
  int task_of(int rank) const { return task_of_rank_[rank]; }

  // The ranks of each task in increasing order; tasks by their lowest rank.
  const std::vector<std::vector<int>>& tasks() const { return tasks_; }

  // "4x2" (tasks x devices) where all tasks have the same number, else the
  // numbers: "3+1+2".
  std::string ToString() const;

  friend bool operator==(const GroupLayout& a, const GroupLayout& b) {
    return a.task_of_rank_ == b.task_of_rank_;
  }

 private:
  explicit GroupLayout(absl::Span<const int> task_of_rank);

  std::vector<int> task_of_rank_;
  std::vector<std::vector<int>> tasks_;
};

class GroupResources;

// What the resolver answers to a CollectiveRequest. All of it is immutable once
// completed and shared by the members of this process.

struct CollGroupMember {
  DeviceAttributes device;
};

// Which devices take part.
struct CollGroupParams {
  GroupKey key = 0;

  // Distinguishes groups that had this key before.
  uint64_t generation = 0;

  std::string device_type;

  // In rank order.
  std::vector<CollGroupMember> members;
  std::shared_ptr<const GroupLayout> layout;

  // Made by the group's leader for implementations that need one, such as
  // NCCL's unique id.
  struct RuntimeDetails {
    std::string communicator_key;

    // Why there is none although one was wanted. Only the leader knows.
    absl::Status key_status;
  } runtime_details;

  // The abort word of this generation: set, it ends all that runs in the group.
  std::shared_ptr<Cancellation> cancellation;

  // What implementations keep as long as the group lives.
  std::shared_ptr<GroupResources> resources;

  int size() const { return static_cast<int>(members.size()); }
};

// Which collective.
struct CollInstanceParams {
  InstanceKey key = 0;
  CollectiveType type = CollectiveType::kAllReduce;
  DType dtype = DType::kFloat32;

  // Of a member's input; of rank 0's where members differ.
  TensorShape shape;

  // Where HasRoot(type); the source of a broadcast.
  int root = 0;

  // Permute only.
  std::vector<int> permutation;

  // Where members differ: rows[i] of rank i's contribution (uneven gathers), or
  // rows[i * n + j] that rank i sends to rank j (all_to_all). Else empty.
  std::vector<int64_t> rows;

  // Each member gives them itself, for one execution (AllGather::rows), and may
  // be wrong.
  bool rows_are_given = false;

  MergeOp merge_op;
  FinalOp final_op;

  // The implementation is chosen, and subdivisions where it has them.
  CollImplDetails impl_details;
};

// Which members are in this process.
struct CollTaskParams {
  std::vector<bool> is_local;
  int num_local = 0;
};

// All that one member needs to know.
struct CollectiveParams {
  std::shared_ptr<const CollGroupParams> group;
  std::shared_ptr<const CollInstanceParams> instance;
  std::shared_ptr<const CollTaskParams> task;
  int default_rank = 0;
  bool is_source = false;  // Broadcast.

  // Of this member; [0] where it has none.
  TensorShape input_shape;
  TensorShape output_shape;
};

// The shape of one member's input and output; empty vectors ([0]) where it has
// none (HasInput, HasOutput). Errors: INVALID_ARGUMENT if the output has more
// elements than 64 bits can count.
absl::StatusOr<TensorShape> InputShape(const CollInstanceParams& instance,
                                       int group_size, int rank);
absl::StatusOr<TensorShape> OutputShape(const CollInstanceParams& instance,
                                        int group_size, int rank);

// Rows of the first dimension that `from` has for `to`, in collectives that
// move blocks: all_gather, gather, reduce_scatter, scatter and all_to_all.
int64_t BlockRows(const CollInstanceParams& instance, int group_size, int from,
                  int to);

// Elements of one row: the product of all but the first dimension.
int64_t RowElements(const TensorShape& shape);

// Device name -> attributes. Thread-safe.
class DeviceResolverInterface {
 public:
  virtual ~DeviceResolverInterface() = default;

  // Errors: NOT_FOUND for a name that is not known here.
  virtual absl::StatusOr<DeviceAttributes> GetDeviceAttributes(
      absl::string_view full_name) const = 0;

  // All devices of a task ("/job:worker/replica:0/task:3"). Errors: NOT_FOUND
  // if it has none.
  virtual absl::StatusOr<std::vector<DeviceAttributes>> GetTaskDevices(
      absl::string_view task_name) const = 0;
};

// What NextStepId() answers while it does not know.
inline constexpr int64_t kInvalidStepId = -1;

// Step ids that all tasks agree on without a message per step. A graph is what
// a runtime runs again and again; its steps are numbered in sequence from an id
// that the leader draws. Thread-safe.
//
// A runtime takes NextStepId(), or if that is kInvalidStepId refreshes first,
// runs the step under it, and retires it.
class StepSequenceInterface {
 public:
  virtual ~StepSequenceInterface() = default;

  // The id of the graph's next step: the same until it is retired. Not
  // negative, or kInvalidStepId if the sequence must be refreshed.
  virtual int64_t NextStepId(int64_t graph_key) = 0;

  // Draws, or learns from the leader, an id to go on from.
  virtual void RefreshStepIdSequenceAsync(int64_t graph_key,
                                          StatusCallback done) = 0;

  // The step was run: the next one follows. An id that is not the present one
  // means that tasks differ, so that the sequence must be refreshed.
  virtual void RetireStepId(int64_t graph_key, int64_t step_id) = 0;

  // The graph will not run again.
  virtual void ForgetGraph(int64_t graph_key) = 0;
};

// Which execution of its instance a member's call is part of.
struct CallNumber {
  int64_t step_id = 0;
  uint64_t execution = 0;

  friend bool operator==(const CallNumber&, const CallNumber&) = default;
};

// Settles who takes part in a collective and what is done: first the group (its
// members and their ranks), then the instance (that all ask for the same, and
// which implementation runs). Both are settled once and remembered.
//
// Thread-safe. `done` runs exactly once, with no lock held, on the thread of
// the member that came last or of the one that cancels.
class ParamResolverInterface {
 public:
  using Done = absl::AnyInvocable<
      void(absl::StatusOr<std::shared_ptr<const CollectiveParams>>) &&>;

  virtual ~ParamResolverInterface() = default;

  // Joins `device` to the group and the instance of `request` and waits for
  // the others. A cancelled wait leaves nothing behind. Errors:
  // INVALID_ARGUMENT where members disagree, on all of them;
  // FAILED_PRECONDITION if a device comes back with another incarnation; the
  // reason of `cancellation`; that of EndGroup; that for which a member of
  // another process has given the execution up.
  virtual void CompleteParamsAsync(
      const DeviceAttributes& device,
      std::shared_ptr<const CollectiveRequest> request, CallNumber number,
      std::shared_ptr<Cancellation> cancellation, Done done) = 0;

  // An execution has failed here before its instance was settled for any member
  // of this process, or with its group: members of other processes are not to
  // wait for it, though they come later, in whichever generation. May be called
  // again and again. For resolvers of one process, whose members share the
  // execution, there is nothing to do.
  virtual void GiveUp(InstanceId /*instance*/, CallNumber /*number*/,
                      const absl::Status& /*reason*/) {}

  // Whom a member that asked so still waits for, for error messages: "group
  // phase: 1 of 4 members had joined (...)". Empty if it waits for nobody.
  virtual std::string DescribeWaiting(const CollectiveRequest& request) = 0;

  // Ends the present generation of a group: what waits or runs in it ends with
  // `reason`; the next member to come begins the next generation.
  virtual void EndGroup(GroupKey group_key, absl::Status reason) = 0;
};

}  // namespace tutti

#endif  // TUTTI_PARAMS_H_
