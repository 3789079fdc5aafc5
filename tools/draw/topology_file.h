#ifndef TUTTI_TOOLS_DRAW_TOPOLOGY_FILE_H_
#define TUTTI_TOOLS_DRAW_TOPOLOGY_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "schedule/simulate/cluster_model.h"

namespace tutti {

// Parses a file such as
//   {"links": [{"name": "within tasks", "latency_us": 1, "gb_per_s": 5},
//              {"name": "in a host", "tasks": 8, "latency_us": 9,
//               "gb_per_s": 10},
//              {"name": "network", "latency_us": 50, "gb_per_s": 2.5}],
//    "message_us": 0.2, "reduced_gb_per_s": 10, "copied_gb_per_s": 10,
//    "host": {"tasks": 8, "processors": 64, "inline_bytes": 262144}}
// docs/simulate.md explains the fields. `text` is the content, `path` the name
// in errors. Errors: UsageError naming line and column if the text is not JSON,
// or the field that is missing, unknown or invalid.
absl::StatusOr<ClusterModel> ParseTopology(const std::string& text,
                                           const std::string& path);

// Errors: also that of a file that cannot be read.
absl::StatusOr<ClusterModel> ReadTopology(const std::string& path);

}  // namespace tutti

#endif  // TUTTI_TOOLS_DRAW_TOPOLOGY_FILE_H_
