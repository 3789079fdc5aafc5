#include "tools/cluster_mode.h"

#include "absl/strings/str_cat.h"

namespace tutti {

absl::Status RunInCluster(absl::string_view command,
                          const ClusterOptions& cluster) {
  return absl::UnimplementedError(absl::StrCat(
      "`tutti ", command, "` cannot take part in a cluster yet, here as ",
      cluster.cluster.Label(cluster.cluster.this_task), " of ",
      cluster.cluster.num_tasks()));
}

}  // namespace tutti
