#ifndef TUTTI_TOOLS_MEASURE_PERF_PLAN_H_
#define TUTTI_TOOLS_MEASURE_PERF_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/cluster/cluster_options.h"
#include "tools/measure/sweep.h"
#include "tools/request/collective_spec.h"
#include "tools/request/request_options.h"
#include "tools/request/workload.h"
#include "tutti/implementation.h"

namespace tutti {

// The command line of `tutti perf`.
struct PerfOptions {
  CollectiveWords collective;
  int devices = 8;
  int tasks = 1;
  SweepOptions sweep = {.max_bytes = "64M", .factor = 4};

  // Names; or "all"; empty: the library chooses.
  std::vector<std::string> algorithms;
  ChoiceOptions choice;

  int iterations = 20;
  int warmup = 3;
  std::optional<double> deadline_seconds;  // Per iteration.
  bool check = false;
  bool hot = false;
  bool in_place = false;
  uint64_t seed = 1;
  bool json = false;
  std::optional<ClusterOptions> cluster;  // Nullopt: one process.
};

// Work of `tutti perf`: measures every workload with every algorithm.
struct PerfPlan {
  std::vector<Workload> workloads;      // By size, without duplicates.
  std::vector<std::string> algorithms;  // Empty: library's choice.

  // Whether to skip algorithms that cannot run a workload: true if the command
  // line does not name them.
  bool may_skip = false;
};

// Pure. A permute without a permutation sends to the next rank. Errors:
// UsageError for every mistake in the options.
absl::StatusOr<PerfPlan> PlanPerf(const PerfOptions& options,
                                  const CollectiveRegistry& registry);

}  // namespace tutti

#endif  // TUTTI_TOOLS_MEASURE_PERF_PLAN_H_
