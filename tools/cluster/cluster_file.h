#ifndef TUTTI_TOOLS_CLUSTER_CLUSTER_FILE_H_
#define TUTTI_TOOLS_CLUSTER_CLUSTER_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "tools/cluster/cluster_words.h"

namespace tutti {

// What a file such as
//   {"job": "worker", "tasks": ["host1:7000", "host2:7000"],
//    "devices_per_task": 2, "tls_cert": "certs/task-{task}.pem"}
// says: `text` is in it, and errors call it by its `path`. Errors: UsageError
// for what is no such JSON, for unknown keys and for values that are lists or
// the like where one is wanted.
absl::StatusOr<ClusterWords> ParseClusterFile(const std::string& text,
                                              const std::string& path);

// Errors also: a file that cannot be read.
absl::StatusOr<ClusterWords> ReadClusterFile(const std::string& path);

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_CLUSTER_FILE_H_
