#ifndef TUTTI_TOOLS_SCHEDULE_COMMAND_H_
#define TUTTI_TOOLS_SCHEDULE_COMMAND_H_

#include <string>

#include "absl/status/status.h"
#include "framework/registry.h"
#include "tools/command.h"
#include "tools/schedule_request.h"

namespace tutti {

// `tutti schedule`: the steps of an algorithm.
struct ScheduleOptions {
  ScheduleWords words;

  // At most one of these; none is `text`.
  bool text = false;
  std::string svg;  // Files.
  std::string goal;
};

// Prints the steps, or writes them to a file. Errors: as Command::run;
// INVALID_ARGUMENT if the algorithm's own plans do not fit together, except as
// text.
absl::Status ShowSchedule(const ScheduleOptions& options,
                          const CollectiveRegistry& registry,
                          const Console& console);

Command AddScheduleCommand(CLI::App* app);

}  // namespace tutti

#endif  // TUTTI_TOOLS_SCHEDULE_COMMAND_H_
