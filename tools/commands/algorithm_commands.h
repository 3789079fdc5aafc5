#ifndef TUTTI_TOOLS_COMMANDS_ALGORITHM_COMMANDS_H_
#define TUTTI_TOOLS_COMMANDS_ALGORITHM_COMMANDS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/cluster/command.h"
#include "tools/request/collective_spec.h"
#include "tools/request/request_options.h"
#include "tools/request/schedule_request.h"
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

#endif  // TUTTI_TOOLS_COMMANDS_ALGORITHM_COMMANDS_H_
