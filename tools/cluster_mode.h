#ifndef TUTTI_TOOLS_CLUSTER_MODE_H_
#define TUTTI_TOOLS_CLUSTER_MODE_H_

#include <memory>
#include <optional>

#include "framework/environment.h"
#include "framework/selection_rules.h"
#include "tools/cluster_options.h"
#include "tools/console.h"
#include "tools/party.h"

namespace tutti {

// How many ranks the tasks of a cluster have together.
int NumRanks(const ClusterOptions& cluster);

// The party of this process alone, or that of a cluster: then the tasks join
// when it is made, with a line to `console` now and then that says for whom
// they wait. `environment`'s parts and `console` outlive the factory and its
// party; `rules` may be null. Errors of making it: those of ClusterRuntime;
// UsageError if the cluster has another number of ranks.
PartyFactory PartyOf(const Environment& environment,
                     const std::optional<ClusterOptions>& cluster,
                     const std::shared_ptr<const SelectionRules>& rules,
                     const Console& console);

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_MODE_H_
