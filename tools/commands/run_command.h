#ifndef TUTTI_TOOLS_COMMANDS_RUN_COMMAND_H_
#define TUTTI_TOOLS_COMMANDS_RUN_COMMAND_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/cluster/cluster_options.h"
#include "tools/cluster/command.h"
#include "tools/cluster/party.h"
#include "tools/request/choice_options.h"
#include "tools/request/collective_spec.h"
#include "tutti/environment.h"

namespace tutti {

// `tutti run`: one collective on the arrays of .npy files.
struct RunOptions {
  CollectiveWords collective;
  std::vector<std::vector<std::string>> inputs;  // As for ExpandInputs().
  std::string output;                            // A directory.
  int groups = 1;
  std::optional<int> devices;
  int tasks = 1;
  std::string algorithm;
  ChoiceOptions choice;
  std::optional<double> deadline_seconds;
  bool watch = false;                     // Prints a line for each result.
  std::optional<ClusterOptions> cluster;  // None: all ranks are here.
};

// Reads, runs and writes, and prints a line that says what was done. After an
// error, or a signal that asks the process to end, no file has appeared or
// changed; what else may happen says OutputFiles. Errors: as Command::run; a
// UsageError also where a result would replace an input; those of `make_party`.
// Of several tasks, each has the files of its own ranks, and none appears
// unless all tasks have succeeded.
absl::Status RunOnFiles(const RunOptions& options,
                        const Environment& environment,
                        const PartyFactory& make_party, const Console& console);

Command AddRunCommand(CLI::App* app);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_RUN_COMMAND_H_
