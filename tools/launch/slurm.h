#ifndef TUTTI_TOOLS_LAUNCH_SLURM_H_
#define TUTTI_TOOLS_LAUNCH_SLURM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/base/environment_variables.h"

namespace tutti {

// Reads the variables that Slurm sets for processes started by `srun`. Pure; no
// list expands to more than 65,536 entries. Errors: UsageError quoting the bad
// text.

// Expands "node[01-03,7],gpu5" to node01, node02, node03, node7, gpu5.
absl::StatusOr<std::vector<std::string>> ExpandHostList(absl::string_view list);

// Expands "2(x3),1" to 2, 2, 2, 1.
absl::StatusOr<std::vector<int>> ExpandTasksPerNode(absl::string_view list);

// "host:port" of each task. Tasks fill one node after the other. The first task
// of each node listens at `base_port`, the next task at the next port. Errors
// also: a missing variable; variables that contradict each other.
absl::StatusOr<std::vector<std::string>> SlurmAddresses(
    const Variables& variables, int base_port);

}  // namespace tutti

#endif  // TUTTI_TOOLS_LAUNCH_SLURM_H_
