#ifndef TUTTI_TOOLS_CLUSTER_CLUSTER_PARTY_H_
#define TUTTI_TOOLS_CLUSTER_CLUSTER_PARTY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tools/cluster/party.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"

namespace tutti {

// The party of the tasks of a cluster, which have joined, and each say which
// `command` they run; rank r is device r % devices_per_task of task
// r / devices_per_task. `environment`'s parts outlive it.
//
// Errors: INVALID_ARGUMENT, on all tasks, naming two whose commands differ;
// those of a collective.
absl::StatusOr<std::unique_ptr<Party>> MakeClusterParty(
    const Environment& environment, std::unique_ptr<ClusterRuntime> runtime,
    const std::string& command);

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_CLUSTER_PARTY_H_
