#ifndef TUTTI_TOOLS_COMMANDS_VERIFY_COMMAND_H_
#define TUTTI_TOOLS_COMMANDS_VERIFY_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/cluster/command.h"
#include "tutti/implementation.h"

namespace tutti {

// `tutti verify`: proves schedules right without running them.
struct VerifyOptions {
  std::vector<std::string> names;  // Empty: all registered ones.
  int max_ranks = 64;
  bool json = false;
};

// Prints a line for each algorithm with the proof or the failure. Errors: as
// Command::run; INTERNAL if an algorithm failed.
absl::Status VerifyAlgorithms(const VerifyOptions& options,
                              const CollectiveRegistry& registry,
                              const Console& console);

Command AddVerifyCommand(CLI::App* app);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_VERIFY_COMMAND_H_
