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

// Settings by which `tutti run` distributes a collective over files.
struct RunSettings {
  CollectiveSpec spec;
  int groups = 1;              // Equal parts of the ranks, in order.
  std::optional<int> devices;  // Default: one per file.

  // Number of tasks, which have equally many of the `devices`; nullopt without
  // a cluster.
  std::optional<int> tasks_of_cluster;

  bool uneven = false;    // reduce_scatter, scatter: balanced blocks.
  std::string algorithm;  // Empty: library's choice.
  // Lowest level accepted.
  Determinism determinism = Determinism::kNotGuaranteed;
  std::vector<int> rank_list;  // As CollImplDetails::rank_list.
};

struct PlannedRank {
  CollectiveRequest request;
  std::optional<int> input;  // Index of the file; nullopt if none.
  bool has_output = false;
  std::string descr;  // NpyHeader::descr of input and output.
};

struct RunPlan {
  int group_size = 0;
  std::vector<PlannedRank> ranks;  // Ranks of all groups, in order.
  std::string description;         // "all_reduce sum float32[3] on 4 ranks"
};

// Assigns files and roles to ranks. Usually takes one file per rank, all with
// the same dtype and shape. A broadcast or a scatter also accepts the root's
// file alone, one per group, if `devices` gives the number of ranks. Pure.
//
// Errors: UsageError if files, groups and devices do not fit each other or the
// collective; INVALID_ARGUMENT naming two files and their contents if ranks of
// one group differ in dtype or shape (all_gather and gather may differ in the
// first dimension), or naming one file with an array that the collective cannot
// take.
absl::StatusOr<RunPlan> PlanRun(const RunSettings& settings,
                                const std::vector<InputFile>& files);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_RUN_PLAN_H_
