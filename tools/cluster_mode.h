#ifndef TUTTI_TOOLS_CLUSTER_MODE_H_
#define TUTTI_TOOLS_CLUSTER_MODE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tools/cluster_options.h"

namespace tutti {

// What `command` (run, perf) does as one task of a cluster, once its own
// options have been checked. Errors: UNIMPLEMENTED, for now always.
absl::Status RunInCluster(absl::string_view command,
                          const ClusterOptions& cluster);

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_MODE_H_
