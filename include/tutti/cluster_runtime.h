#ifndef TUTTI_CLUSTER_RUNTIME_H_
#define TUTTI_CLUSTER_RUNTIME_H_

// ClusterRuntime: one task of several. Makes the transport, the resolvers and
// the executor manager; joins, leaves, watches the other tasks, and ends steps
// and groups on all of them. CreateGrpcTransport() and CreateMpiTransport(), in
// separate headers, make a transport.

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

// Tasks (processes) of a job and the addresses they listen at. Task i is
// "/job:JOB/replica:0/task:i". A value.
struct ClusterSpec {
  std::string job = "worker";
  std::vector<std::string> addresses;  // "host:port", by task.
  int this_task = 0;

  int num_tasks() const { return static_cast<int>(addresses.size()); }

  // Returns "task 2 (host3:7000)"; just "task 9" if no task has that number.
  std::string Label(int task) const;

  // Returns "/job:worker/replica:0/task:2".
  std::string TaskName(int task) const;

  // Task that owns the device. Errors: NOT_FOUND naming the job and its tasks.
  absl::StatusOr<int> TaskOf(const DeviceName& device) const;
};

// Errors: INVALID_ARGUMENT for no task, too many tasks, or a task outside the
// list; for an address that is empty, listed twice or without a port; for a job
// name that is invalid in device names.
absl::Status Validate(const ClusterSpec& cluster);

// Paths of PEM files. The certificate names its task, such as "task-3", as
// common name or as alternative DNS name.
struct TlsOptions {
  std::string certificate;
  std::string key;
  std::string ca;

  bool enabled() const {
    return !certificate.empty() || !key.empty() || !ca.empty();
  }
};

// Limits after which a silent task counts as lost. If a task has answered
// before and its connection closes, the task is lost at once. The first
// heartbeat, too, may be held.
struct HealthProfile {
  absl::Duration silence_limit;

  // Longest time that the other side keeps a heartbeat before it answers. A
  // task may stand still for silence_limit - hold.
  absl::Duration hold;

  // Tolerates a task that stands still for three seconds. A task that is silent
  // for five seconds is lost.
  static HealthProfile Default() {
    return {DefaultTime("silence"), DefaultTime("hold")};
  }

  // A task that is silent for a second is lost.
  static HealthProfile Fast() {
    return {DefaultTime("fast silence"), DefaultTime("fast hold")};
  }
};

class Transport;

// Parts of a task for collectives among the devices of all tasks: a transport,
// the resolvers, and an executor manager.
//
// Life cycle: Create(), Join(), collectives by manager(), Leave(), destruction.
// A task that ends without Leave() is lost for the others: all collectives in
// groups with its devices fail there.
//
// Thread-safe. `done` runs once: on a thread of the transport, the clock or the
// queue, inside the call, or inside the destructor. It must not block or
// destroy the runtime.
class ClusterRuntime {
 public:
  // Makes the transport of this task, given its process's incarnation:
  // CreateGrpcTransport() or CreateMpiTransport().
  using TransportFactory =
      std::function<absl::StatusOr<std::shared_ptr<Transport>>(
          uint64_t incarnation)>;

  // Makes the devices of this task, given its process's incarnation.
  using DeviceFactory =
      std::function<absl::StatusOr<std::vector<std::unique_ptr<Device>>>(
          uint64_t incarnation)>;

  struct Options {
    ClusterSpec cluster;
    Environment environment;  // The parts outlive the runtime and all calls.

    // Number of CPU devices, unless `make_devices` is set. That function
    // returns all devices of this task, with its incarnation. Devices are
    // destroyed with the runtime. So if a device continues work after an abort,
    // end its calls first.
    int devices_per_task = 1;
    DeviceFactory make_devices;
    TransportFactory make_transport;
    HealthProfile health = HealthProfile::Default();

    // Bounds: waiting requests of each other task for bytes, and bytes of this
    // task that wait for requests (default: unlimited).
    size_t max_waiting_requests = size_t{1} << 16;
    size_t max_offered_bytes = std::numeric_limits<size_t>::max();

    // Rules for collectives whose members name no implementation; null: none.
    // The leading task's rules decide.
    std::shared_ptr<const SelectionRules> rules;

    // Settings of named tensors. The settings of a coordinator's rank zero
    // apply.
    CoordinatorSettings coordinator;

    // See ParamResolverDistributed::Options. Equal in all tasks.
    size_t max_entries = size_t{1} << 19;
  };

  // Creates the runtime and begins to listen. Errors: INVALID_ARGUMENT; any
  // error of the transport.
  static absl::StatusOr<std::unique_ptr<ClusterRuntime>> Create(
      Options options);

  // Ends all running calls, and blocks until the transport has ended. Work that
  // a queue's thread is running ends soon after.
  ~ClusterRuntime();
  ClusterRuntime(const ClusterRuntime&) = delete;
  ClusterRuntime& operator=(const ClusterRuntime&) = delete;

  // Waits until all tasks have reported. `progress` gets the missing tasks, at
  // first and after each change; calls come one at a time, and never after
  // `done`. Errors: DEADLINE_EXCEEDED naming the missing tasks; the error with
  // which a task refuses this one; CANCELLED if the runtime is destroyed.
  void Join(absl::Time deadline,
            std::function<void(const std::vector<int>& missing)> progress,
            StatusCallback done);

  // Reports that this task is done, and waits until all live tasks have done
  // so. Then no other task needs this one. Errors: DEADLINE_EXCEEDED naming the
  // missing tasks; FAILED_PRECONDITION while another Leave() waits; CANCELLED
  // if the runtime is destroyed.
  void Leave(absl::Time deadline, StatusCallback done);

  const ClusterSpec& cluster() const;

  // Policy by which this task decides as a leader.
  SelectionPolicy policy() const;

  // Devices of this task, in the order of their indices.
  const std::vector<Device*>& devices() const;
  CollectiveExecutorMgr& manager();

  // Collectives by names of tensors, among the first devices of all tasks.
  //
  // Each coordinator uses its own step and group. The largest
  // kMaxCoordinatorKey + 1 numbers of steps and groups are reserved for them.
  Coordinator& coordinator();

  // Creates a coordinator among the first devices of some tasks, by rank; the
  // first decides. All these tasks call this, in any order and at any time,
  // with the same key, 1 to kMaxCoordinatorKey, and the same tasks. Names are
  // the coordinator's own. Coordinators may overlap and run at the same time.
  // Create few, and keep them: some of their state lasts as long as the
  // runtime. A task may request of at most 16 coordinators that the deciding
  // task has not created.
  //
  // Errors: INVALID_ARGUMENT for an invalid key, and for tasks that the cluster
  // lacks, that are listed twice, or without this one; ALREADY_EXISTS if this
  // process has used the key. If tasks give different tasks, this call, or
  // requests, end with FAILED_PRECONDITION, and the key is used up; but tasks
  // that give another first one wait for each other.
  absl::StatusOr<std::shared_ptr<Coordinator>> CreateCoordinator(
      int64_t key, const std::vector<int>& tasks);

  // Ends a step on all tasks, for ever: its calls, also later ones, end with
  // CANCELLED or ABORTED. Each task frees the step's state when the message
  // arrives; `done` runs when all tasks have answered. Errors: that of a task
  // that could not be told. Idempotent: call it again then. manager().Cleanup()
  // ends a step in this process alone.
  void CleanupStep(int64_t step_id, StatusCallback done);

  // Ends the present generation of a group, on all tasks. The next collectives
  // of the group, on any task, form the next generation, which may have another
  // size. Continue in another step, in which all members count their executions
  // from zero. In a step in which a member called an earlier generation, its
  // calls end with FAILED_PRECONDITION, and so does the group.
  void ReformGroup(GroupKey group_key, absl::Status reason);

  // Reports the health of a task, "/job:worker/replica:0/task:3" or "3". OK;
  // FAILED_PRECONDITION if it restarted; UNAVAILABLE if it cannot be reached;
  // DEADLINE_EXCEEDED if it does not answer within `limit`; INVALID_ARGUMENT
  // for an unknown name.
  void CheckHealth(absl::string_view task, absl::Duration limit,
                   StatusCallback done);

 private:
  class Impl;
  explicit ClusterRuntime(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace tutti

#endif  // TUTTI_CLUSTER_RUNTIME_H_
