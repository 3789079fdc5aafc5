#ifndef TUTTI_TOOLS_MEASURE_TUNE_PLAN_H_
#define TUTTI_TOOLS_MEASURE_TUNE_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/cluster/cluster_options.h"
#include "tools/measure/perf_buffers.h"
#include "tools/measure/sweep.h"
#include "tools/request/workload.h"
#include "tutti/params.h"
#include "tutti/selection.h"

namespace tutti {

// The command line of `tutti tune`.
struct TuneOptions {
  std::vector<std::string> collectives = {
      "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"};

  // Where there is a cluster, the one that it has.
  std::vector<std::string> layouts = {"1x2", "1x4", "1x8"};
  SweepOptions sweep = {.max_bytes = "16M", .factor = 8};
  std::optional<int> rounds;               // None: see WantsAnotherRound().
  int iterations = 4;                      // Of each algorithm, in each round.
  std::optional<double> deadline_seconds;  // Of each iteration.
  int64_t max_store_bytes = int64_t{256} << 20;  // StoreCalibrationOptions.
  std::string output;                            // A file.
  std::optional<ClusterOptions> cluster;         // None: all ranks are here.
};

// A point before it is measured.
struct TuneQuestion {
  Workload workload;
  GroupLayout layout;
  RankRange ranks;  // Of this process.

  // Or each task is a process.
  bool one_process() const { return ranks.count == layout.size(); }
};

// "all_reduce sum of 4096 bytes on 1x8"
std::string Describe(const TuneQuestion& question);

// What the leader of these ranks chooses from, by `policy`. `question` outlives
// it.
SelectionRequest RequestFor(const TuneQuestion& question,
                            const SelectionPolicy& policy);

// All that is to be measured; what is of one layout follows each other. Pure.
// Errors: UsageError for all that is wrong with the options, whatever happens
// then.
absl::StatusOr<std::vector<TuneQuestion>> PlanTuning(
    const TuneOptions& options);

// Whether the algorithms of a point take turns once more, having done so
// `num_rounds` times and for so long in all. Without a number of rounds they do
// 5 times at least, and up to 25 times while that has taken less than half a
// second: what is over quickly is disturbed the most. Pure.
bool WantsAnotherRound(const TuneOptions& options, int num_rounds,
                       absl::Duration taken);

// Whether all fit into memory, before time goes into any.
absl::Status CheckMemory(const std::vector<TuneQuestion>& questions);

}  // namespace tutti

#endif  // TUTTI_TOOLS_MEASURE_TUNE_PLAN_H_
