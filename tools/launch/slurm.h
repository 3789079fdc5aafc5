#ifndef TUTTI_TOOLS_LAUNCH_SLURM_H_
#define TUTTI_TOOLS_LAUNCH_SLURM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/base/environment_variables.h"

namespace tutti {

// What Slurm tells the processes that `srun` starts. Pure; no list makes more
// than 65,536 of anything. Errors: UsageError quoting what is wrong.

// "node[01-03,7],gpu5": node01, node02, node03, node7, gpu5.
absl::StatusOr<std::vector<std::string>> ExpandHostList(absl::string_view list);

// "2(x3),1": 2, 2, 2, 1.
absl::StatusOr<std::vector<int>> ExpandTasksPerNode(absl::string_view list);

// "host:port" by task. Tasks fill one node after the other, and the first of
// each node listens at `base_port`, the next one at the port after that. Errors
// also: a variable that is missing; those that contradict each other.
absl::StatusOr<std::vector<std::string>> SlurmAddresses(
    const Variables& variables, int base_port);

}  // namespace tutti

#endif  // TUTTI_TOOLS_LAUNCH_SLURM_H_
