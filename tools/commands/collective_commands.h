#ifndef TUTTI_TOOLS_COMMANDS_COLLECTIVE_COMMANDS_H_
#define TUTTI_TOOLS_COMMANDS_COLLECTIVE_COMMANDS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/cluster/cluster_options.h"
#include "tools/cluster/command.h"
#include "tools/cluster/party.h"
#include "tools/measure/perf_plan.h"
#include "tools/measure/tune_plan.h"
#include "tools/request/collective_spec.h"
#include "tools/request/request_options.h"
#include "tutti/environment.h"

namespace tutti {

// `tutti run`: runs one collective on the arrays of .npy files.
struct RunOptions {
  CollectiveWords collective;
  std::vector<std::vector<std::string>> inputs;  // For ExpandInputs().
  std::string output;                            // Path of a directory.
  int groups = 1;
  std::optional<int> devices;
  int tasks = 1;
  bool uneven = false;  // Balances rows that the ranks do not divide.
  std::string algorithm;
  ChoiceOptions choice;
  std::optional<double> deadline_seconds;
  bool watch = false;                     // Prints a line for each result.
  std::optional<ClusterOptions> cluster;  // Nullopt: one process.
};

// Reads, runs and writes, and prints a line that describes the run. After an
// error, or a signal that ends the process, no file has appeared or changed;
// OutputFiles states the exceptions. Errors: as Command::run; UsageError also
// if a result would replace an input; those of `make_party`. Each task of a
// cluster writes the files of its ranks; no file appears unless all tasks
// succeed.
absl::Status RunOnFiles(const RunOptions& options,
                        const Environment& environment,
                        const PartyFactory& make_party, const Console& console);

Command AddRunCommand(CLI::App* app);

// `tutti perf`: measures and prints a row per size and algorithm. `num_workers`
// is the number of threads of the environment's queue. Errors: as Command::run;
// those of `make_party`; DATA_LOSS if elements were wrong.
absl::Status MeasureCollective(const PerfOptions& options,
                               const Environment& environment, int num_workers,
                               const PartyFactory& make_party,
                               const Console& console);

Command AddPerfCommand(CLI::App* app);

// `tutti tune`: measures the algorithms, and writes rules that choose the
// fastest ones. The task that reports prints a row for each collective, layout
// and size, and the scores of the cost model and of the rules; then it writes
// the whole file. In a cluster all tasks call this, with the party of the
// cluster. Errors: as Command::run; those of `make_party`; those of an
// algorithm, naming it and its workload; those of WriteOutputFile().
absl::Status TuneRules(const TuneOptions& options,
                       const Environment& environment,
                       const PartyFactory& make_party, const Console& console);

Command AddTuneCommand(CLI::App* app);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_COLLECTIVE_COMMANDS_H_
