#ifndef TUTTI_TOOLS_REQUEST_SCHEDULE_REQUEST_H_
#define TUTTI_TOOLS_REQUEST_SCHEDULE_REQUEST_H_

#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "schedule/engine/stand_in.h"
#include "schedule/proof/verifier.h"
#include "tools/request/collective_spec.h"
#include "tools/request/workload.h"
#include "tutti/implementation.h"

namespace tutti {

// What the command line of a command says that looks at the plans of an
// algorithm without running them.
struct ScheduleWords {
  std::string name;
  std::optional<int> ranks;          // Default: those of the layout, else 8.
  std::string layout;                // Empty: one task.
  CollectiveWords collective;        // None: the first of the algorithm.
  std::optional<std::string> bytes;  // Default: 1M. Not of a barrier.
};

// The same, looked up.
struct ScheduleRequest {
  StandIn shown;
  VerifyCase request;  // With the subdivisions that it would choose.
  Workload workload;   // In float32.
};

// "RingReduce: all_reduce on 4x2, offsets 0"
std::string TitleOf(const ScheduleWords& words, const ScheduleRequest& request);

// Errors: UsageError for a name that is not registered or has no plans, not
// even of what stands for it, and for other words that do not go with it or
// with each other.
absl::StatusOr<ScheduleRequest> ParseScheduleRequest(
    const ScheduleWords& words, const CollectiveRegistry& registry,
    int max_ranks);

// Options that fill `words`, which outlives the parsing.
void AddScheduleOptions(CLI::App* app, int max_ranks, ScheduleWords* words);

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_SCHEDULE_REQUEST_H_
