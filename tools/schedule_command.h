#ifndef TUTTI_TOOLS_SCHEDULE_COMMAND_H_
#define TUTTI_TOOLS_SCHEDULE_COMMAND_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "framework/registry.h"
#include "tools/collective_spec.h"
#include "tools/command.h"

namespace tutti {

// `tutti schedule`: the steps of an algorithm.
struct ScheduleOptions {
  std::string name;
  std::optional<int> ranks;  // Default: those of the layout, else 8.
  std::string layout;        // Empty: one task.
  CollectiveWords words;     // No collective: the first of the algorithm.
  std::string bytes = "1M";

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
