#ifndef TUTTI_TOOLS_MEASURE_PERF_ROW_H_
#define TUTTI_TOOLS_MEASURE_PERF_ROW_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "tools/base/text_table.h"
#include "tools/request/workload.h"

namespace tutti {

// What the executions of one workload by one algorithm came to.
struct Measurement {
  std::string algorithm;
  std::vector<absl::Duration> times;  // Of the slowest rank, per iteration.
  std::optional<int64_t> wrong;       // Elements, over ranks and iterations.
};

// A row of `tutti perf`.
struct PerfRow {
  std::string collective;
  int64_t bytes = 0;      // Of the whole buffer.
  int64_t count = 0;      // Of its elements.
  std::string dtype;      // Empty of a barrier.
  std::string reduction;  // Empty where nothing is reduced.
  std::string algorithm;
  double p50_us = 0;
  double p99_us = 0;
  double algbw = 0;  // 10^9 bytes per second: bytes / p50.
  double busbw = 0;  // algbw * BusFactor().
  std::optional<int64_t> wrong;

  // Bytes per second: LeastMovedBytes() / p50. None of a barrier.
  std::optional<double> least_bandwidth;
};

// REQUIRES: at least one time.
PerfRow MakePerfRow(const Workload& workload, const Measurement& measurement);

// How near the row is to what memory allows, 1 being there, if a copy reads and
// writes `copy_bandwidth` bytes per second. Rows compare only by the same one.
// None of a barrier, and if that is not known (0).
std::optional<double> LimitShare(const PerfRow& row, double copy_bandwidth);

// The smallest time that at least `percent` of the times do not exceed.
// REQUIRES: times is not empty and percent is in (0, 100].
absl::Duration Percentile(std::vector<absl::Duration> times, int percent);

// What part of the whole buffer the slowest link of the best algorithm carries:
// makes collectives and group sizes comparable, as in NCCL's tests.
double BusFactor(CollectiveType type, int group_size);

// The columns of a row; wide enough to print rows as they come.
TextTable PerfTable();
std::vector<std::string> Cells(const PerfRow& row, double copy_bandwidth);

nlohmann::ordered_json ToJson(const PerfRow& row, double copy_bandwidth);

}  // namespace tutti

#endif  // TUTTI_TOOLS_MEASURE_PERF_ROW_H_
