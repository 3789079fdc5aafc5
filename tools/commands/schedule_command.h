#ifndef TUTTI_TOOLS_COMMANDS_SCHEDULE_COMMAND_H_
#define TUTTI_TOOLS_COMMANDS_SCHEDULE_COMMAND_H_

#include <string>

#include "absl/status/status.h"
#include "tools/cluster/command.h"
#include "tools/request/schedule_request.h"
#include "tutti/implementation.h"

namespace tutti {

// `tutti schedule`: shows the steps of an algorithm.
struct ScheduleOptions {
  ScheduleWords words;

  // At most one format is set; none means `text`.
  bool text = false;
  std::string svg;  // Paths of files.
  std::string goal;
};

// Prints the steps, or writes them to a file. Errors: as Command::run;
// INVALID_ARGUMENT if the plans of the algorithm do not fit together, except as
// text.
absl::Status ShowSchedule(const ScheduleOptions& options,
                          const CollectiveRegistry& registry,
                          const Console& console);

Command AddScheduleCommand(CLI::App* app);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_SCHEDULE_COMMAND_H_
