#ifndef TUTTI_RUNTIME_CLUSTER_RUNTIME_H_
#define TUTTI_RUNTIME_CLUSTER_RUNTIME_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/cluster_spec.h"
#include "framework/collective_executor_mgr.h"
#include "framework/collective_request.h"
#include "framework/coordinator/coordinator.h"
#include "framework/coordinator/coordinator_settings.h"
#include "framework/device.h"
#include "framework/environment.h"
#include "framework/selection.h"
#include "framework/selection_rules.h"
#include "framework/status_callback.h"
#include "resolvers/health_profile.h"

namespace tutti {

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

  // Ends a step on all tasks; idempotent. What another task asks for it later
  // ends with ABORTED. Its executors end here only after the message, elsewhere
  // when it arrives; `done` runs when nothing of it is left between tasks, nor
  // that MPI was to run, and hears of tasks that could not be told: then clean
  // it up again, from a task that was, before it is used again. After that it
  // may begin anew: collectives are called once all tasks have found or created
  // its executor.
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

#endif  // TUTTI_RUNTIME_CLUSTER_RUNTIME_H_
