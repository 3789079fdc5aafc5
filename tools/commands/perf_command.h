#ifndef TUTTI_TOOLS_COMMANDS_PERF_COMMAND_H_
#define TUTTI_TOOLS_COMMANDS_PERF_COMMAND_H_

#include "absl/status/status.h"
#include "tools/cluster/command.h"
#include "tools/cluster/party.h"
#include "tools/measure/perf_plan.h"
#include "tutti/environment.h"

namespace tutti {

// Measures and prints a row per size and algorithm. `num_workers` is the number
// of threads of the environment's queue. Errors: as Command::run; those of
// `make_party`; DATA_LOSS if elements were wrong.
absl::Status MeasureCollective(const PerfOptions& options,
                               const Environment& environment, int num_workers,
                               const PartyFactory& make_party,
                               const Console& console);

Command AddPerfCommand(CLI::App* app);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_PERF_COMMAND_H_
