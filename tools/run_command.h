#ifndef TUTTI_TOOLS_RUN_COMMAND_H_
#define TUTTI_TOOLS_RUN_COMMAND_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/environment.h"
#include "tools/collective_spec.h"
#include "tools/command.h"

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
  std::optional<double> deadline_seconds;
};

// Reads, runs and writes; the line that says what was done. All files appear
// or none does. Errors: as Command::run.
absl::StatusOr<std::string> RunOnFiles(const RunOptions& options,
                                       const Environment& environment);

Command AddRunCommand(CLI::App* app);

}  // namespace tutti

#endif  // TUTTI_TOOLS_RUN_COMMAND_H_
