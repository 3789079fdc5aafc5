#ifndef TUTTI_TOOLS_MEASURE_TUNE_PLAN_H_
#define TUTTI_TOOLS_MEASURE_TUNE_PLAN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/cluster/cluster_options.h"
#include "tools/measure/perf_buffers.h"
#include "tools/request/request_options.h"
#include "tools/request/workload.h"
#include "tutti/collective.h"
#include "tutti/params.h"
#include "tutti/selection.h"

namespace tutti {

// The command line of `tutti tune`.
struct TuneOptions {
  std::vector<std::string> collectives = {
      "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"};

  // In a cluster: the cluster's layout only.
  std::vector<std::string> layouts = {"1x2", "1x4", "1x8"};
  SweepOptions sweep = {.max_bytes = "16M", .factor = 8};
  std::optional<int> rounds;               // Default: see WantsAnotherRound().
  int iterations = 4;                      // Per algorithm and round.
  std::optional<double> deadline_seconds;  // Per iteration.
  int64_t max_store_bytes = int64_t{256} << 20;  // As StoreCalibrationOptions.
  std::string output;                            // Path of a file.
  std::string device_type = "CPU";
  std::optional<ClusterOptions> cluster;  // Nullopt: one process.
};

// A point to measure.
struct TuneQuestion {
  Workload workload;
  GroupLayout layout;
  RankRange ranks;  // Ranks of this process.
  std::string device_type = "CPU";

  // Whether all tasks are in one process; otherwise each task is a process.
  bool one_process() const { return ranks.count == layout.size(); }
};

// Text such as "all_reduce sum of 4096 bytes on 1x8".
std::string Describe(const TuneQuestion& question);

// Request from which the leader of these ranks chooses by `policy`. `question`
// outlives it.
SelectionRequest RequestFor(const TuneQuestion& question,
                            const SelectionPolicy& policy);

// All points to measure. Points with the same layout are adjacent. Pure.
// Errors: UsageError for every mistake in the options.
absl::StatusOr<std::vector<TuneQuestion>> PlanTuning(
    const TuneOptions& options);

// Whether the algorithms of a point take turns once more, after `num_rounds`
// rounds that took `taken` in all. Without TuneOptions::rounds they take at
// least 5 turns, and up to 25 while these took less than half a second: noise
// disturbs short runs most. Pure.
bool WantsAnotherRound(const TuneOptions& options, int num_rounds,
                       absl::Duration taken);

// Checks that every point fits into memory, before any is measured.
absl::Status CheckMemory(const std::vector<TuneQuestion>& questions);

// Seconds that each algorithm took, by name.
using TimesByAlgorithm = std::map<std::string, double>;

// Measurements of one collective on one layout. Measured twice, so that noise
// that affects a choice does not affect its score.
struct TunedPoint {
  CollectiveType type = CollectiveType::kAllReduce;
  GroupLayout layout = GroupLayout::Uniform(1, 1);
  bool one_process = true;  // Otherwise each task is a process.
  int64_t bytes = 0;        // The larger of a rank's buffers.
  TimesByAlgorithm to_choose;
  TimesByAlgorithm to_judge;  // Same algorithms.
};

// Ratio up to which two times count as equal: smaller differences are mostly
// noise.
inline constexpr double kAsFast = 1.05;

// Ratio to the best time up to which a choice scores.
inline constexpr double kNearBest = 1.10;

// Name of the fastest algorithm. REQUIRES: `times` is not empty.
std::string Fastest(const TimesByAlgorithm& times);

// Ratio of the named algorithm's time to the fastest time; infinity if the
// algorithm was not measured. REQUIRES: `times` is not empty.
double RatioToBest(const TimesByAlgorithm& times, absl::string_view name);

// Rules that choose by `to_choose`: as few rules as keep each point within 5 %
// of its best. A rule covers adjacent points with the same collective, layout
// and processes and growing sizes. The border between two rules is the
// geometric mean of their sizes. The smallest size also covers all smaller
// ones, the largest all larger ones. Pure.
SelectionRules RulesFrom(const std::vector<TunedPoint>& points);

}  // namespace tutti

#endif  // TUTTI_TOOLS_MEASURE_TUNE_PLAN_H_
