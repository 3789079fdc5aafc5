#ifndef TUTTI_TOOLS_MEASURE_SWEEP_H_
#define TUTTI_TOOLS_MEASURE_SWEEP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "tools/request/workload.h"

namespace tutti {

// Which sizes a command measures, as words of its command line.
struct SweepOptions {
  std::optional<std::string> bytes;  // This one alone.
  std::string min_bytes = "4";
  std::string max_bytes;
  int factor = 0;
  std::string dtype = "float32";
};

// --bytes or --min-bytes, --max-bytes and --factor, and --dtype; what `options`
// has is said to be the default. `options` outlives the parsing.
void AddSweepOptions(CLI::App* app, SweepOptions* options);

// Errors: UsageError saying what is wrong with which option.
absl::StatusOr<std::vector<int64_t>> SweptSizes(const SweepOptions& options);

// One workload for each size; sizes that come to the same number of elements
// are one.
std::vector<Workload> SweptWorkloads(const Workload& workload,
                                     const std::vector<int64_t>& sizes);

}  // namespace tutti

#endif  // TUTTI_TOOLS_MEASURE_SWEEP_H_
