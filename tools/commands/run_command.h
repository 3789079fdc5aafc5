#ifndef TUTTI_TOOLS_COMMANDS_RUN_COMMAND_H_
#define TUTTI_TOOLS_COMMANDS_RUN_COMMAND_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/cluster/cluster_options.h"
#include "tools/cluster/command.h"
#include "tools/cluster/party.h"
#include "tools/request/collective_spec.h"
#include "tools/request/request_options.h"
#include "tutti/environment.h"

namespace tutti {

// `tutti run`: runs one collective on the arrays of .npy files.
struct RunOptions {
  CollectiveWords collective;
  std::vector<std::vector<std::string>> inputs;  // For ExpandInputs().
  std::string output;                            // Path of a directory.
  int groups = 1;
  std::optional<int> devices;
  int tasks = 1;
  std::string algorithm;
  ChoiceOptions choice;
  std::optional<double> deadline_seconds;
  bool watch = false;                     // Prints a line for each result.
  std::optional<ClusterOptions> cluster;  // Nullopt: one process.
};

// Reads, runs and writes, and prints a line that describes the run. After an
// error, or a signal that ends the process, no file has appeared or changed;
// OutputFiles states the exceptions. Errors: as Command::run; UsageError also
// if a result would replace an input; those of `make_party`. Each task of a
// cluster writes the files of its ranks; no file appears unless all tasks
// succeed.
absl::Status RunOnFiles(const RunOptions& options,
                        const Environment& environment,
                        const PartyFactory& make_party, const Console& console);

Command AddRunCommand(CLI::App* app);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_RUN_COMMAND_H_
