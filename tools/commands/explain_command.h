#ifndef TUTTI_TOOLS_COMMANDS_EXPLAIN_COMMAND_H_
#define TUTTI_TOOLS_COMMANDS_EXPLAIN_COMMAND_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "tools/cluster/command.h"
#include "tools/request/choice_options.h"
#include "tools/request/collective_spec.h"
#include "tutti/implementation.h"
#include "tutti/selection.h"

namespace tutti {

// `tutti explain`: which algorithm the library would choose, and why.
struct ExplainOptions {
  CollectiveWords collective;
  std::string layout = "1x8";
  bool one_process = false;  // However many tasks there are.
  bool mpi = false;          // Connects the processes, else gRPC.
  int processors = 0;        // Of the host of those; 0: one for each.
  std::string bytes = "1M";
  std::string dtype = "float32";
  std::string algorithm;  // Empty: the library chooses.
  ChoiceOptions choice;
  std::shared_ptr<const SelectionRules> rules;  // May be null: none.
  bool json = false;
};

// Prints all that are registered: first those that can serve, the cheapest
// first, then the others with what rules them out. Errors: as Command::run;
// INVALID_ARGUMENT if the named one, or any, cannot serve, after printing.
absl::Status ExplainChoice(const ExplainOptions& options,
                           const CollectiveRegistry& registry,
                           const Console& console);

Command AddExplainCommand(CLI::App* app);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_EXPLAIN_COMMAND_H_
