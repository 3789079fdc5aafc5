#ifndef TUTTI_SCHEDULE_PLAN_H_
#define TUTTI_SCHEDULE_PLAN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/collective_type.h"
#include "framework/group_layout.h"
#include "framework/implementation_traits.h"
#include "schedule/outline.h"
#include "schedule/schedule.h"

namespace tutti {

// All that a plan may depend on. Every value is checked before a plan sees it.
struct PlanRequest {
  const GroupLayout& layout;
  CollectiveType type = CollectiveType::kAllReduce;
  int rank = 0;
  int root = 0;  // Where HasRoot(type).

  // kPermute only: what rank i has goes to rank permutation[i].
  absl::Span<const int> permutation;

  // One ring or tree per entry; never empty where the traits say
  // supports_subdivisions. An offset k >= 0 starts k devices further in each
  // task; a negative one -k goes through its devices backwards, and starts k
  // further on that way. Offsets count modulo the devices of the task.
  absl::Span<const int> subdiv_offsets;

  // Where the traits take a list of ranks: each at most once, for kAllRanks all
  // of them. Empty: the algorithm's own order.
  absl::Span<const int> rank_list;

  // kReduceScatter: blocks may differ in size, as those of an all-reduce do
  // that it is a part of. Else all are alike.
  bool blocks_differ = false;

  // This member's output is its input (where chunks have the same number).
  // Members may differ in this: it must not change what is sent or received.
  bool in_place = false;
};

// What to choose subdivisions by, where the caller gave no offsets: so many
// that bytes / (ranks * subdivisions) is at most 4 MiB, as far as the maximum
// allows.
struct SubdivisionRequest {
  const GroupLayout& layout;
  int64_t bytes = 0;  // Of the larger of one member's input and output.
  int max_subdivs_per_device = 0;  // As in CollImplDetails.

  // All members are GPUs of one process, where each step is a launch.
  bool are_launches = false;
};

// An algorithm whose steps are known before it runs.
struct Algorithm {
  ImplementationTraits traits;

  // What one rank does. Pure. Not asked, nor the others, unless CheckParts() is
  // OK.
  Schedule (*plan)(const PlanRequest& request) = nullptr;

  // The subdivision offsets to use by default. Pure. Null unless the traits say
  // supports_subdivisions.
  std::vector<int> (*subdivide)(const SubdivisionRequest& request) = nullptr;

  // As traits.cost_seconds, with so many subdivisions instead of the default
  // ones. Pure. Null: it is the same with any number.
  double (*subdivided_seconds)(const CostQuery& query,
                               int num_subdivs) = nullptr;

  // The outline of what `plan` makes, for groups that are too large to plan;
  // `rank` does not count. Pure, and needs nothing of the request later. Null,
  // or an error that says why not: only as planned. The conformance suite
  // compares the two (CheckOutline).
  absl::StatusOr<std::unique_ptr<const Outline>> (*outline)(
      const PlanRequest& request) = nullptr;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_PLAN_H_
