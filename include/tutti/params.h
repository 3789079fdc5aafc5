#ifndef TUTTI_PARAMS_H_
#define TUTTI_PARAMS_H_

// Params: a request with its group and instance settled. Also the interfaces
// that settle requests: ParamResolverInterface, DeviceResolverInterface and
// StepSequenceInterface. Params are immutable once completed, and the members
// of a process share them.

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

// Placement of a group's ranks on tasks (processes): all that an algorithm may
// know of the machine. Immutable.
class GroupLayout {
 public:
  // Creates a layout; `task_of_rank[r]` is any number that names the task of
  // rank r. Errors: INVALID_ARGUMENT if there is no rank.
  static absl::StatusOr<GroupLayout> Create(absl::Span<const int> task_of_rank);

  // Ranks 0..d-1 on the first task, d..2d-1 on the second and so on. Values
  // below one count as one.
  static GroupLayout Uniform(int num_tasks, int devices_per_task);

  int size() const { return static_cast<int>(task_of_rank_.size()); }
  int num_tasks() const { return static_cast<int>(tasks_.size()); }

  // Index into tasks() of the rank's task.
  int task_of(int rank) const { return task_of_rank_[rank]; }

  // Ranks of each task in increasing order; tasks ordered by their lowest rank.
  const std::vector<std::vector<int>>& tasks() const { return tasks_; }

  // Returns "4x2" (tasks x devices) where all tasks have the same number of
  // devices, else the numbers: "3+1+2".
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

// Answer of the resolver to a CollectiveRequest. Immutable once completed and
// shared by the members of this process.

struct CollGroupMember {
  DeviceAttributes device;
};

// Devices that take part.
struct CollGroupParams {
  GroupKey key = 0;

  // Distinguishes successive groups with the same key.
  uint64_t generation = 0;

  std::string device_type;

  // Members in rank order.
  std::vector<CollGroupMember> members;
  std::shared_ptr<const GroupLayout> layout;

  // Created by the group's leader for implementations that need it, such as
  // NCCL's unique id.
  struct RuntimeDetails {
    std::string communicator_key;

    // Reason why a wanted key is missing. Set on the leader only.
    absl::Status key_status;
  } runtime_details;

  // Cancelling it ends everything that runs in this generation of the group.
  std::shared_ptr<Cancellation> cancellation;

  // Objects that implementations keep for the life of the group.
  std::shared_ptr<GroupResources> resources;

  int size() const { return static_cast<int>(members.size()); }
};

// Divides the group `base` into sub-groups. Each row lists the ranks in `base`
// of one sub-group's members, in the order of their ranks there. Returns the
// group's fields of the request of each member of `base`, by its rank there;
// group_size is 0 for a rank in no row. Every member computes the same keys,
// from the key and the generation of `base` and from the row. Pure. Errors:
// INVALID_ARGUMENT for an empty row, or a rank that is not in `base` or occurs
// twice.
absl::StatusOr<std::vector<CollectiveRequest>> SubgroupsByEnumeration(
    const CollGroupParams& base,
    absl::Span<const std::vector<int>> ranks_per_subgroup);

// Collective that the members run.
struct CollInstanceParams {
  InstanceKey key = 0;
  CollectiveType type = CollectiveType::kAllReduce;
  DType dtype = DType::kFloat32;

  // Shape of a member's input; rank 0's where members differ.
  TensorShape shape;

  // Valid where HasRoot(type); the source of a broadcast.
  int root = 0;

  // Used by Permute only.
  std::vector<int> permutation;

  // Set where blocks differ: rows[i] is the size of rank i's block;
  // rows[i * n + j] goes from rank i to rank j (all_to_all). Else empty.
  std::vector<int64_t> rows;

  // Each member gives the rows itself, for one execution (`rows` or `recv_rows`
  // of the op). Members may give different rows. In all_to_all the rows are of
  // `rows_rank` alone: rows[j] goes to rank j, rows[n + i] comes from rank i.
  bool rows_are_given = false;
  int rows_rank = 0;

  MergeOp merge_op;
  FinalOp final_op;

  // The implementation is chosen, and the subdivisions if it has any.
  CollImplDetails impl_details;
};

// Members that are in this process.
struct CollTaskParams {
  std::vector<bool> is_local;
  int num_local = 0;
};

// Complete description of one member's part in a collective.
struct CollectiveParams {
  std::shared_ptr<const CollGroupParams> group;
  std::shared_ptr<const CollInstanceParams> instance;
  std::shared_ptr<const CollTaskParams> task;
  int default_rank = 0;
  bool is_source = false;  // Broadcast.

  // Shapes of this member; [0] where it has no input or output.
  TensorShape input_shape;
  TensorShape output_shape;
};

// Shape of one member's input or output; [0] where it has none (HasInput,
// HasOutput). Errors: INVALID_ARGUMENT if the output has more elements than 64
// bits can count.
absl::StatusOr<TensorShape> InputShape(const CollInstanceParams& instance,
                                       int group_size, int rank);
absl::StatusOr<TensorShape> OutputShape(const CollInstanceParams& instance,
                                        int group_size, int rank);

// Rows of the first dimension that `from` has for `to`, in collectives that
// move blocks: all_gather, gather, reduce_scatter, scatter and all_to_all. If
// the rows are of `rows_rank` alone: 0 for a pair of other ranks.
int64_t BlockRows(const CollInstanceParams& instance, int group_size, int from,
                  int to);

// Elements of one row: the product of all dimensions but the first.
int64_t RowElements(const TensorShape& shape);

// Maps device names to attributes. Thread-safe.
class DeviceResolverInterface {
 public:
  virtual ~DeviceResolverInterface() = default;

  // Errors: NOT_FOUND for an unknown name.
  virtual absl::StatusOr<DeviceAttributes> GetDeviceAttributes(
      absl::string_view full_name) const = 0;

  // All devices of a task ("/job:worker/replica:0/task:3"). Errors: NOT_FOUND
  // if the task has none.
  virtual absl::StatusOr<std::vector<DeviceAttributes>> GetTaskDevices(
      absl::string_view task_name) const = 0;
};

// Returned by NextStepId() while no id is known.
inline constexpr int64_t kInvalidStepId = -1;

// Generates step ids that all tasks agree on without a message per step. A
// graph is a computation that a runtime runs repeatedly. The leader draws a
// first id for each graph, and its steps count up from there. Thread-safe.
//
// For each step, a runtime calls NextStepId(), and refreshes first if that
// returns kInvalidStepId. The runtime then runs the step and retires the id.
class StepSequenceInterface {
 public:
  virtual ~StepSequenceInterface() = default;

  // Id of the graph's next step: the same until it is retired. Not negative, or
  // kInvalidStepId if the sequence must be refreshed.
  virtual int64_t NextStepId(int64_t graph_key) = 0;

  // Draws the next first id, or gets it from the leader.
  virtual void RefreshStepIdSequenceAsync(int64_t graph_key,
                                          StatusCallback done) = 0;

  // Retires the id of a step that was run, so that the next one follows. An
  // unexpected id means that tasks differ: then the sequence must be refreshed.
  virtual void RetireStepId(int64_t graph_key, int64_t step_id) = 0;

  // Drops a graph that will not run again.
  virtual void ForgetGraph(int64_t graph_key) = 0;
};

// Identifies an execution of an instance in a step.
struct CallNumber {
  int64_t step_id = 0;
  uint64_t execution = 0;

  friend bool operator==(const CallNumber&, const CallNumber&) = default;
};

// Settles the group and the instance of a collective, in this order. The group:
// its members and their ranks. The instance: all requests are equal, and one
// implementation is chosen. Both are settled once and remembered.
//
// Thread-safe. `done` runs exactly once, with no lock held, on the thread of
// the last member to come or of the caller that cancels.
class ParamResolverInterface {
 public:
  using GroupDone = absl::AnyInvocable<
      void(absl::StatusOr<std::shared_ptr<const CollGroupParams>>) &&>;
  using Done = absl::AnyInvocable<
      void(absl::StatusOr<std::shared_ptr<const CollectiveParams>>) &&>;

  virtual ~ParamResolverInterface() = default;

  // Joins `device` to the group of `request`, and waits for the other members.
  // Answers at once if the group is formed: this also looks a group up. Uses
  // only the group's fields of the request. A cancelled wait leaves nothing
  // behind. Errors: INVALID_ARGUMENT for wrong fields, on all members if their
  // fields do not match; the other errors of CompleteInstanceAsync().
  virtual void CompleteGroupAsync(const DeviceAttributes& device,
                                  const CollectiveRequest& request,
                                  std::shared_ptr<Cancellation> cancellation,
                                  GroupDone done) = 0;

  // Settles an instance without running it. Joins `device` to the group, as
  // CompleteGroupAsync() does, then to the instance of `request`, and waits for
  // the other members. A cancelled wait leaves nothing behind. Errors:
  // INVALID_ARGUMENT on all members if requests differ; FAILED_PRECONDITION if
  // a device comes back with another incarnation; the reason of `cancellation`
  // or of EndGroup(). Also the reason with which a member of another process
  // gave the execution up.
  virtual void CompleteInstanceAsync(
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

  // Describes the members that a member with this request still waits for, for
  // error messages: "group phase: 1 of 4 members had joined (...)". Empty if it
  // waits for no member.
  virtual std::string DescribeWaiting(const CollectiveRequest& request) = 0;

  // Ends the present generation of a group: everything that waits or runs in it
  // ends with `reason`. The next member to come begins the next generation.
  virtual void EndGroup(GroupKey group_key, absl::Status reason) = 0;
};

}  // namespace tutti

#endif  // TUTTI_PARAMS_H_
