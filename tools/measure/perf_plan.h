#ifndef TUTTI_TOOLS_MEASURE_PERF_PLAN_H_
#define TUTTI_TOOLS_MEASURE_PERF_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/base/json_value.h"
#include "tools/base/text.h"
#include "tools/cluster/cluster_options.h"
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

// Result of executing one workload with one algorithm.
struct Measurement {
  std::string algorithm;
  std::vector<absl::Duration> times;  // Slowest rank, per iteration.
  std::optional<int64_t> wrong;       // Sum over ranks and iterations.
};

// Output row of `tutti perf`.
struct PerfRow {
  std::string collective;
  int64_t bytes = 0;      // Size of the whole buffer.
  int64_t count = 0;      // Elements of the whole buffer.
  std::string dtype;      // Empty for a barrier.
  std::string reduction;  // Empty without a reduction.
  std::string algorithm;
  double p50_us = 0;
  double p99_us = 0;
  double algbw = 0;  // 10^9 bytes per second: bytes / p50.
  double busbw = 0;  // algbw * BusFactor().
  std::optional<int64_t> wrong;

  // LeastMovedBytes() / p50, in bytes per second. Nullopt for a barrier.
  std::optional<double> least_bandwidth;
};

// REQUIRES: at least one time.
PerfRow MakePerfRow(const Workload& workload, const Measurement& measurement);

// Share of the memory's bandwidth that the row reaches; 1 is the limit. A plain
// copy reads and writes `copy_bandwidth` bytes per second; compare rows only if
// it is equal. Nullopt for a barrier, and if `copy_bandwidth` is not known (0).
std::optional<double> LimitShare(const PerfRow& row, double copy_bandwidth);

// Smallest time that at least `percent` of the times do not exceed. REQUIRES:
// times is not empty and percent is in (0, 100].
absl::Duration Percentile(std::vector<absl::Duration> times, int percent);

// Share of the whole buffer that the slowest link of the best algorithm
// carries. Makes collectives and group sizes comparable, as in NCCL's tests.
double BusFactor(CollectiveType type, int group_size);

// Columns of a row, wide enough to print each row at once.
TextTable PerfTable();
std::vector<std::string> Cells(const PerfRow& row, double copy_bandwidth);

Json ToJson(const PerfRow& row, double copy_bandwidth);

}  // namespace tutti

#endif  // TUTTI_TOOLS_MEASURE_PERF_PLAN_H_
