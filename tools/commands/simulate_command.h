#ifndef TUTTI_TOOLS_COMMANDS_SIMULATE_COMMAND_H_
#define TUTTI_TOOLS_COMMANDS_SIMULATE_COMMAND_H_

#include <string>

#include "absl/status/status.h"
#include "tools/cluster/command.h"
#include "tools/request/schedule_request.h"
#include "tutti/implementation.h"

namespace tutti {

// `tutti simulate`: predicts the time of an algorithm on a machine that need
// not exist.
struct SimulateOptions {
  ScheduleWords words;
  std::string topology;  // A file. Empty: the cost model's machine.
  bool json = false;
};

// Errors: as Command::run; RESOURCE_EXHAUSTED if the group is too large for the
// algorithm.
absl::Status SimulateAlgorithm(const SimulateOptions& options,
                               const CollectiveRegistry& registry,
                               const Console& console);

Command AddSimulateCommand(CLI::App* app);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_SIMULATE_COMMAND_H_
