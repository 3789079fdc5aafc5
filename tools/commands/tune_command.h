#ifndef TUTTI_TOOLS_COMMANDS_TUNE_COMMAND_H_
#define TUTTI_TOOLS_COMMANDS_TUNE_COMMAND_H_

#include "absl/status/status.h"
#include "tools/cluster/command.h"
#include "tools/cluster/party.h"
#include "tools/measure/tune_plan.h"
#include "tutti/environment.h"

namespace tutti {

// `tutti tune`: measures the algorithms, and writes rules that choose by what
// was measured.

// On the task that reports: prints a row for each collective, layout and size,
// and the scores of the model and of the rules; then the file is there, whole.
// In a cluster all tasks call it, with the party of all. Errors: as
// Command::run; those of `make_party`; those of the algorithms, which name the
// one and what it was to do; those of WriteOutputFile().
absl::Status TuneRules(const TuneOptions& options,
                       const Environment& environment,
                       const PartyFactory& make_party, const Console& console);

Command AddTuneCommand(CLI::App* app);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_TUNE_COMMAND_H_
