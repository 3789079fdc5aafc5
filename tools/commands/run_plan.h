#ifndef TUTTI_TOOLS_COMMANDS_RUN_PLAN_H_
#define TUTTI_TOOLS_COMMANDS_RUN_PLAN_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/files/npy_header.h"
#include "tools/request/collective_spec.h"
#include "tutti/collective.h"

namespace tutti {

struct InputFile {
  std::string path;
  NpyHeader header;
};

// How `tutti run` spreads a collective over files.
struct RunSettings {
  CollectiveSpec spec;
  int groups = 1;              // Ranks fall into so many groups, in order.
  std::optional<int> devices;  // Default: one per file.

  // Of a cluster, which have equally many of the `devices`; none without one.
  std::optional<int> tasks_of_cluster;

  std::string algorithm;  // Empty: the library chooses.
  Determinism determinism = Determinism::kNotGuaranteed;  // Wanted at least.
  std::vector<int> rank_list;  // As CollImplDetails::rank_list.
};

struct PlannedRank {
  CollectiveRequest request;
  std::optional<int> input;  // Which file; none where it contributes nothing.
  bool has_output = false;
};

struct RunPlan {
  int group_size = 0;
  std::vector<PlannedRank> ranks;  // Of all groups, in order.
  std::string description;         // "all_reduce sum float32[3] on 4 ranks"
};

// Who does what. One file per rank, all alike; of a broadcast or a scatter the
// root's file alone serves too, one per group, if `devices` says how many ranks
// there are. Pure.
//
// Errors: UsageError where files, groups and devices do not fit each other or
// the collective; INVALID_ARGUMENT naming two files and what they hold where
// ranks of one group differ in dtype or shape (all_gather may differ in the
// first dimension), or one file, whose array the collective cannot take.
absl::StatusOr<RunPlan> PlanRun(const RunSettings& settings,
                                const std::vector<InputFile>& files);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_RUN_PLAN_H_
