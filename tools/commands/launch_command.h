#ifndef TUTTI_TOOLS_COMMANDS_LAUNCH_COMMAND_H_
#define TUTTI_TOOLS_COMMANDS_LAUNCH_COMMAND_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tools/base/console.h"
#include "tools/cluster/cluster_options.h"
#include "tools/cluster/command.h"

namespace tutti {

// `tutti launch`: runs all tasks of a cluster on this machine.
struct LaunchOptions {
  int tasks = 1;
  ClusterWords cluster;            // Options passed to all tasks.
  std::vector<std::string> words;  // Command line of the command.
  absl::Duration grace = DefaultTime("grace");
};

// Runs `program worker ... -- WORDS` once for each task, and prints the tasks'
// output. If a signal arrives, ends the process by it. Errors: the error of the
// first task that failed, with its exit status, or 128 + the signal that killed
// it.
absl::Status Launch(const LaunchOptions& options, const std::string& program,
                    const Console& console);

// Checks a command line before many tasks run it. Errors: those of the command
// line. May print its help instead; then sets `*printed_help`.
using CheckTaskWords =
    std::function<absl::Status(const std::vector<std::string>& words,
                               const Console& console, bool* printed_help)>;

Command AddLaunchCommand(CLI::App* app, CheckTaskWords check);

// Runs the command line of another command in a cluster.
using RunAsTask = std::function<absl::Status(
    const std::vector<std::string>& words, const ClusterOptions& cluster,
    const Console& console)>;

// `tutti worker`: runs one task of a cluster.
Command AddWorkerCommand(CLI::App* app, RunAsTask run_as_task);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_LAUNCH_COMMAND_H_
