#ifndef TUTTI_TOOLS_CLUSTER_CLUSTER_MODE_H_
#define TUTTI_TOOLS_CLUSTER_CLUSTER_MODE_H_

#include <memory>
#include <optional>
#include <string>

#include "tools/base/console.h"
#include "tools/cluster/cluster_options.h"
#include "tools/cluster/party.h"
#include "tutti/environment.h"
#include "tutti/selection.h"

namespace tutti {

// How many ranks the tasks of a cluster have together.
int NumRanks(const ClusterOptions& cluster);

struct PartyOptions {
  // None: the party of this process alone.
  std::optional<ClusterOptions> cluster;

  // What all tasks of the cluster must run, as SharedCommand().
  std::string command;

  std::shared_ptr<const SelectionRules> rules;  // May be null.
};

// The party of this process alone, or that of a cluster: then the tasks join
// when it is made, with a line to `console` now and then that says for whom
// they wait, and compare their commands. `environment`'s parts and `console`
// outlive the factory and its party. Errors of making it: those of
// ClusterRuntime; INVALID_ARGUMENT, on all tasks, for different commands or
// numbers of devices; FAILED_PRECONDITION where MPI has another number or rank
// for this process than mpirun's variables; UsageError if the cluster has
// another number of ranks.
PartyFactory PartyOf(const Environment& environment, PartyOptions options,
                     const Console& console);

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_CLUSTER_MODE_H_
