#ifndef TUTTI_CLUSTER_RUNTIME_H_
#define TUTTI_CLUSTER_RUNTIME_H_

// ClusterRuntime: one task of several. Makes the transport, the resolvers
// and the executor manager; joins, leaves, watches the other tasks, and ends
// steps and groups on all of them. A transport is made by
// CreateGrpcTransport() or CreateMpiTransport(), in headers of their own.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/named_tensors.h"
#include "tutti/selection.h"

namespace tutti {

// The tasks (processes) of a job and where they listen. Task i is
// "/job:JOB/replica:0/task:i". A value.
struct ClusterSpec {
  std::string job = "worker";
  std::vector<std::string> addresses;  // "host:port", by task.
  int this_task = 0;

  int num_tasks() const { return static_cast<int>(addresses.size()); }

  // "task 2 (host3:7000)"; just "task 9" of a number that no task has.
  std::string Label(int task) const;

  // "/job:worker/replica:0/task:2".
  std::string TaskName(int task) const;

  // Which task has the device. Errors: NOT_FOUND naming the job and the tasks
  // that there are.
  absl::StatusOr<int> TaskOf(const DeviceName& device) const;
};

// Errors: INVALID_ARGUMENT for no task, too many, an address that is empty, has
// no port or is there twice, a task that is not in the list, a job name that
// device names cannot have.
absl::Status Validate(const ClusterSpec& cluster);

// How soon a task that does not answer counts as lost. One whose connection
// closes is lost at once, if it has answered before: the first heartbeat, too,
// may be held.
struct HealthProfile {
  absl::Duration silence_limit;

  // How long the other side may keep a heartbeat before it answers. What it may
  // stand still for is the difference.
  absl::Duration hold;

  // A task that stands still for three seconds is not lost, one that is silent
  // for five is.
  static HealthProfile Default() {
    return {absl::Milliseconds(4800), absl::Seconds(1)};
  }

  // One that is silent for a second is lost.
  static HealthProfile Fast() {
    return {absl::Milliseconds(900), absl::Milliseconds(200)};
  }
};

class Transport;

// All that one task of a cluster needs to run collectives among its devices and
// those of the other tasks: a transport, the resolvers, and an executor
// manager.
//
// Its way: Create(), Join(), collectives by manager(), Leave(), destruction. A
// task that goes without Leave() is lost for the others: what runs in groups
// with its devices fails there.
//
// Thread-safe. `done` runs once, on a thread of the transport's, of the clock,
// of the queue, inside the call or inside the destructor; it must not block,
// nor destroy the runtime.
class ClusterRuntime {
 public:
  // Makes the transport of this task, whose process has that incarnation:
  // CreateGrpcTransport() or CreateMpiTransport().
  using TransportFactory =
      std::function<absl::StatusOr<std::shared_ptr<Transport>>(
          uint64_t incarnation)>;

  // Makes the devices of this task, whose process has that incarnation.
  using DeviceFactory =
      std::function<absl::StatusOr<std::vector<std::unique_ptr<Device>>>(
          uint64_t incarnation)>;

  struct Options {
    ClusterSpec cluster;
    Environment environment;  // Its parts outlive the runtime and all calls.

    // Of the host, unless there is `make_devices`: all of the task and of that
    // incarnation. They end with the runtime, so what is called must have ended
    // before, where a device goes on by itself after an abort.
    int devices_per_task = 1;
    DeviceFactory make_devices;
    TransportFactory make_transport;
    HealthProfile health = HealthProfile::Default();

    // Bounds: requests of one other task that wait here for bytes; and bytes of
    // this one that wait for requests, by default any number.
    size_t max_waiting_asks = size_t{1} << 16;
    size_t max_offered_bytes = std::numeric_limits<size_t>::max();

    // For what no member names an implementation for; null: none. Those of the
    // task that leads decide.
    std::shared_ptr<const SelectionRules> rules;

    // Those of task 0 count.
    CoordinatorSettings coordinator;

    // As in ParamResolverDistributed::Options; the same in all tasks.
    size_t max_entries = size_t{1} << 19;
  };

  // Begins to listen. Errors: INVALID_ARGUMENT; those of the transport.
  static absl::StatusOr<std::unique_ptr<ClusterRuntime>> Create(
      Options options);

  // Ends what has not ended, and blocks until the transport has. What a worker
  // of the queue is at just then ends soon after.
  ~ClusterRuntime();
  ClusterRuntime(const ClusterRuntime&) = delete;
  ClusterRuntime& operator=(const ClusterRuntime&) = delete;

  // Waits until all tasks have been heard of. `progress` hears of those that
  // have not, at first and after each change; one at a time, and not after
  // `done`. Errors: DEADLINE_EXCEEDED naming them; what a task refuses this one
  // with; CANCELLED if the runtime is destroyed.
  void Join(absl::Time deadline,
            std::function<void(const std::vector<int>& missing)> progress,
            StatusCallback done);

  // Says that this task is done, and waits until all tasks that live have said
  // so: then none of them needs this one any more. Errors: DEADLINE_EXCEEDED
  // naming those that have not; FAILED_PRECONDITION while another one waits;
  // CANCELLED if the runtime is destroyed.
  void Leave(absl::Time deadline, StatusCallback done);

  const ClusterSpec& cluster() const;

  // By what this task decides where it leads.
  SelectionPolicy policy() const;

  // Of this task, in the order of their indices.
  const std::vector<Device*>& devices() const;
  CollectiveExecutorMgr& manager();

  // Collectives by the names of tensors, among the first devices of all tasks.
  // It has a step and a group of its own, with the largest numbers there are.
  Coordinator& coordinator();

  // Ends a step on all tasks, for ever: its calls, also later ones, end with
  // CANCELLED or ABORTED. Each task frees the step's state when the message
  // arrives; `done` runs when all tasks have answered. Errors: that of a task
  // that could not be told. Idempotent: call it again then. manager().Cleanup()
  // ends a step in this process alone.
  void CleanupStep(int64_t step_id, StatusCallback done);

  // Ends the present generation of a group, on all tasks; the next collectives
  // of the group, on any task, form the next one, of another size if they like.
  // Go on in another step, for which all count their executions anew: what a
  // member has called in a step with another generation of its group before,
  // ends there with FAILED_PRECONDITION, and the group with it.
  void ReformGroup(GroupKey group_key, absl::Status reason);

  // How a task is, "/job:worker/replica:0/task:3" or "3": OK;
  // FAILED_PRECONDITION if it restarted; UNAVAILABLE if it cannot be reached;
  // DEADLINE_EXCEEDED if it does not answer within `limit`; INVALID_ARGUMENT
  // for a name that no task has.
  void CheckHealth(absl::string_view task, absl::Duration limit,
                   StatusCallback done);

 private:
  class Impl;
  explicit ClusterRuntime(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace tutti

#endif  // TUTTI_CLUSTER_RUNTIME_H_
