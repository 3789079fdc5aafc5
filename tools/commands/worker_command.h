#ifndef TUTTI_TOOLS_COMMANDS_WORKER_COMMAND_H_
#define TUTTI_TOOLS_COMMANDS_WORKER_COMMAND_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/base/console.h"
#include "tools/cluster/cluster_options.h"
#include "tools/cluster/command.h"

namespace tutti {

// Runs the command line of another command in a cluster.
using RunAsTask = std::function<absl::Status(
    const std::vector<std::string>& words, const ClusterOptions& cluster,
    const Console& console)>;

// `tutti worker`: runs one task of a cluster.
Command AddWorkerCommand(CLI::App* app, RunAsTask run_as_task);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_WORKER_COMMAND_H_
