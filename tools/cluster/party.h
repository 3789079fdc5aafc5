#ifndef TUTTI_TOOLS_CLUSTER_PARTY_H_
#define TUTTI_TOOLS_CLUSTER_PARTY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tutti/cluster_runtime.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/local_runtime.h"
#include "tutti/reduction.h"
#include "tutti/selection.h"

namespace tutti {

// The ranks on which a command runs collectives. This process has all ranks, or
// those of one task of a cluster; the other tasks run the same command on
// theirs. The ranks of a process are consecutive: device i has rank
// first_rank() + i.
//
// For one thread, which may block. All tasks call the collective operations
// (Align, Agree, Combine, Leave) in the same order.
class Party {
 public:
  virtual ~Party() = default;

  virtual int num_ranks() const = 0;
  virtual int first_rank() const = 0;
  virtual const std::vector<Device*>& devices() const = 0;
  virtual CollectiveExecutorMgr& manager() = 0;

  // Policy by which this process chooses algorithms for the ranks that it
  // leads: in a cluster, task 0 leads.
  virtual SelectionPolicy policy() const = 0;

  // Whether this process prints the command's results.
  virtual bool reports() const = 0;

  // Barrier: returns on all tasks at about the same time. Errors: those of a
  // collective.
  virtual absl::Status Align() = 0;

  // Returns OK on all tasks if `mine` is OK on all tasks. Otherwise returns
  // `mine` if it is an error, and else the error of another task, naming the
  // task.
  virtual absl::Status Agree(const absl::Status& mine) = 0;

  // Reduces each number over all tasks, in place. Errors: those of a
  // collective.
  virtual absl::Status Combine(ReductionKind kind,
                               absl::Span<int64_t> numbers) = 0;

  // Ends the party after the last collective; `outcome` is the result of the
  // command. Call it once, last. Waits until the other tasks end too, but not
  // long if `outcome` is an error. Errors: `outcome`; a task that did not end.
  virtual absl::Status Leave(const absl::Status& outcome) = 0;

  int num_local() const { return static_cast<int>(devices().size()); }
};

// Devices wanted for consecutive ranks of one task.
struct DevicesOfTask {
  std::string job = "localhost";
  int task = 0;
  int first_rank = 0;
  int num_devices = 1;
  std::optional<uint64_t> incarnation;  // Unset: random.
};

// Makes the devices of a task, in rank order. The maker outlives the devices.
using DeviceMaker =
    std::function<absl::StatusOr<std::vector<std::unique_ptr<Device>>>(
        const DevicesOfTask& task)>;

// Makes the party for a number of ranks that `num_tasks` divides.
using PartyFactory = std::function<absl::StatusOr<std::unique_ptr<Party>>(
    int num_ranks, int num_tasks)>;

// Makes a party whose ranks are all devices of this process; tasks only affect
// the devices' names. The parts of `environment` outlive the party; `rules` may
// be null. Without `make_devices`, makes CPU devices.
PartyFactory LocalParty(const Environment& environment,
                        std::shared_ptr<const SelectionRules> rules = nullptr,
                        DeviceMaker make_devices = nullptr);

// CollectiveExecutor::ExecuteAsync of some executor.
using ExecuteFn = absl::FunctionRef<void(CollectiveArgs, StatusCallback)>;

// Starts all calls, in order, on this thread and waits for them. Returns the
// time from before the first start to the end of the last call, which is the
// time of the slowest rank. Errors: the error of the first call that failed.
// REQUIRES: `calls` is not empty.
absl::StatusOr<absl::Duration> TimedRun(ExecuteFn execute, Clock* clock,
                                        std::vector<CollectiveArgs> calls);

// TimedRun() of one call on each device of the party, in step `step_id`.
// calls[i] runs on device i.
absl::StatusOr<absl::Duration> RunCalls(Party* party, Clock* clock,
                                        int64_t step_id,
                                        std::vector<CollectiveArgs> calls);

// Returns the devices of a task, and after them a CPU device for the party's
// own messages. Errors: those of `make_devices`.
absl::StatusOr<std::vector<std::unique_ptr<Device>>> WithMessenger(
    const DeviceMaker& make_devices, const DevicesOfTask& task);

// Makes the party of the tasks of a cluster that have joined. Each task passes
// its `command`, which must be equal on all tasks. Rank r is device r %
// devices_per_task of task r / devices_per_task. Tasks whose devices lack host
// memory have those of WithMessenger(). The parts of `environment` outlive the
// party.
//
// Errors: INVALID_ARGUMENT, on all tasks, naming two tasks with different
// commands; those of a collective.
absl::StatusOr<std::unique_ptr<Party>> MakeClusterParty(
    const Environment& environment, std::unique_ptr<ClusterRuntime> runtime,
    const std::string& command);

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_PARTY_H_
