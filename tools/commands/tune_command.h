#ifndef TUTTI_TOOLS_COMMANDS_TUNE_COMMAND_H_
#define TUTTI_TOOLS_COMMANDS_TUNE_COMMAND_H_

#include "absl/status/status.h"
#include "tools/cluster/command.h"
#include "tools/cluster/party.h"
#include "tools/measure/tune_plan.h"
#include "tutti/environment.h"

namespace tutti {

// `tutti tune`: measures the algorithms, and writes rules that choose the
// fastest ones.

// On the task that reports: prints a row for each collective, layout and size,
// and the scores of the cost model and of the rules; then writes the whole
// file. In a cluster all tasks call this, with the party of the cluster.
// Errors: as Command::run; those of `make_party`; those of an algorithm, naming
// it and its workload; those of WriteOutputFile().
absl::Status TuneRules(const TuneOptions& options,
                       const Environment& environment,
                       const PartyFactory& make_party, const Console& console);

Command AddTuneCommand(CLI::App* app);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_TUNE_COMMAND_H_
