#ifndef TUTTI_TOOLS_COMMANDS_EXPLAIN_COMMAND_H_
#define TUTTI_TOOLS_COMMANDS_EXPLAIN_COMMAND_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "tools/cluster/command.h"
#include "tools/request/collective_spec.h"
#include "tools/request/request_options.h"
#include "tutti/implementation.h"
#include "tutti/selection.h"

namespace tutti {

// `tutti explain`: shows which algorithm the library would choose, and why.
struct ExplainOptions {
  CollectiveWords collective;
  std::string layout = "1x8";
  bool one_process = false;  // Even with several tasks.
  bool mpi = false;          // Processes use MPI, not gRPC.
  int processors = 0;        // Of a host; 0: one per process.
  std::string bytes = "1M";
  std::string dtype = "float32";
  std::string algorithm;  // Empty: the library chooses.
  ChoiceOptions choice;
  std::shared_ptr<const SelectionRules> rules;  // Null: none.
  bool json = false;
};

// Prints all registered algorithms: first those that can run, the cheapest
// first, then the others with the reason why they cannot. Errors: as
// Command::run; INVALID_ARGUMENT, after printing, if the named algorithm (or,
// without a name, every one) cannot run.
absl::Status ExplainChoice(const ExplainOptions& options,
                           const CollectiveRegistry& registry,
                           const Console& console);

Command AddExplainCommand(CLI::App* app);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_EXPLAIN_COMMAND_H_
