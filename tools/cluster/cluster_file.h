#ifndef TUTTI_TOOLS_CLUSTER_CLUSTER_FILE_H_
#define TUTTI_TOOLS_CLUSTER_CLUSTER_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "tools/cluster/cluster_options.h"

namespace tutti {

// Parses a file such as
//   {"job": "worker", "tasks": ["host1:7000", "host2:7000"],
//    "devices_per_task": 2, "tls_cert": "certs/task-{task}.pem"}
// `text` is the content, `path` the name in errors. Errors: UsageError if the
// text is not such JSON, for an unknown key, and for a list or an object in
// place of a single value.
absl::StatusOr<ClusterWords> ParseClusterFile(const std::string& text,
                                              const std::string& path);

// Errors: also that of a file that cannot be read.
absl::StatusOr<ClusterWords> ReadClusterFile(const std::string& path);

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_CLUSTER_FILE_H_
