#ifndef TUTTI_TOOLS_CLUSTER_CLUSTER_MODE_H_
#define TUTTI_TOOLS_CLUSTER_CLUSTER_MODE_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "remote/transport_registry.h"
#include "tools/base/console.h"
#include "tools/cluster/cluster_options.h"
#include "tools/cluster/party.h"
#include "tutti/environment.h"
#include "tutti/selection.h"

namespace tutti {

// Number of ranks of all tasks together.
int NumRanks(const ClusterOptions& cluster);

// Errors: UsageError for an unknown transport; UNIMPLEMENTED for MPI if this
// tool was built without it.
absl::StatusOr<TransportRegistry::Entry> FindTransport(
    const TransportRegistry& registry, const ClusterOptions& options);

struct PartyOptions {
  // Nullopt: the party of this process alone.
  std::optional<ClusterOptions> cluster;

  // Command that all tasks must run, as SharedCommand() returns it.
  std::string command;

  std::shared_ptr<const SelectionRules> rules;  // May be null.
  DeviceMaker make_devices;                     // Null: CPU devices.
};

// Makes the party of this process alone, or that of a cluster. In a cluster the
// tasks join when the party is made, and compare their commands; now and then a
// line on `console` names the tasks still awaited. The parts of `environment`
// and `console` outlive the factory and its party. Errors of making the party:
// those of ClusterRuntime; INVALID_ARGUMENT, on all tasks, for different
// commands or numbers of devices; FAILED_PRECONDITION if MPI and mpirun's
// variables disagree about this process's rank or the number of processes;
// UsageError if the cluster has another number of ranks.
PartyFactory PartyOf(const Environment& environment, PartyOptions options,
                     const Console& console);

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_CLUSTER_MODE_H_
