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

// Sizes that a command measures, as given on its command line.
struct SweepOptions {
  std::optional<std::string> bytes;  // Measures only this size.
  std::string min_bytes = "4";
  std::string max_bytes;
  int factor = 0;
  std::string dtype = "float32";
};

// Adds --bytes or --min-bytes, --max-bytes and --factor, and --dtype. The help
// shows the values in `options` as defaults. `options` must outlive the
// parsing.
void AddSweepOptions(CLI::App* app, SweepOptions* options);

// Errors: UsageError describing the mistake and the option.
absl::StatusOr<std::vector<int64_t>> SweptSizes(const SweepOptions& options);

// Returns one workload for each size. Sizes with equal numbers of elements give
// one workload.
std::vector<Workload> SweptWorkloads(const Workload& workload,
                                     const std::vector<int64_t>& sizes);

}  // namespace tutti

#endif  // TUTTI_TOOLS_MEASURE_SWEEP_H_
