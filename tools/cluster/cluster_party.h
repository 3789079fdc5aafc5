#ifndef TUTTI_TOOLS_CLUSTER_CLUSTER_PARTY_H_
#define TUTTI_TOOLS_CLUSTER_CLUSTER_PARTY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/cluster/party.h"
#include "tutti/cluster_runtime.h"
#include "tutti/device.h"
#include "tutti/environment.h"

namespace tutti {

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

#endif  // TUTTI_TOOLS_CLUSTER_CLUSTER_PARTY_H_
