#ifndef TUTTI_TOOLS_TUNE_COMMAND_H_
#define TUTTI_TOOLS_TUNE_COMMAND_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "framework/environment.h"
#include "framework/registry.h"
#include "tools/command.h"
#include "tools/sweep.h"

namespace tutti {

// `tutti tune`: measures the algorithms on this machine, and writes rules that
// choose by what was measured.
struct TuneOptions {
  std::vector<std::string> collectives = {
      "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"};
  std::vector<std::string> layouts = {"1x2", "1x4", "1x8"};
  SweepOptions sweep = {.max_bytes = "16M", .factor = 8};
  int rounds = 5;
  int iterations = 4;                      // Of each algorithm, in each round.
  std::optional<double> deadline_seconds;  // Of each iteration.
  int64_t max_store_bytes = int64_t{256} << 20;  // StoreCalibrationOptions.
  std::string output;                            // A file.
};

// Prints a row for each collective, layout and size, and the scores of the
// model and of the rules; then the file is there, whole. Errors: as
// Command::run; those of the algorithms, which name the one and what it was to
// do; those of WriteOutputFile().
absl::Status TuneRules(const TuneOptions& options,
                       const Environment& environment,
                       const CollectiveRegistry& registry,
                       const Console& console);

Command AddTuneCommand(CLI::App* app);

}  // namespace tutti

#endif  // TUTTI_TOOLS_TUNE_COMMAND_H_
