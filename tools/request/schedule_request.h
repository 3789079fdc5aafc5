#ifndef TUTTI_TOOLS_REQUEST_SCHEDULE_REQUEST_H_
#define TUTTI_TOOLS_REQUEST_SCHEDULE_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "schedule/engine/stand_in.h"
#include "schedule/group_plan.h"
#include "schedule/proof/verifier.h"
#include "tools/request/collective_spec.h"
#include "tools/request/workload.h"
#include "tutti/implementation.h"

namespace tutti {

// Command line of a command that inspects the plans of an algorithm without
// running them.
struct ScheduleWords {
  std::string name;
  std::optional<int> ranks;          // Default: the layout's, else 8.
  std::string layout;                // Empty: one task.
  CollectiveWords collective;        // Default: the algorithm's first.
  std::optional<std::string> bytes;  // Default: 1M. Not for a barrier.
};

// ScheduleWords with all names looked up.
struct ScheduleRequest {
  StandIn shown;
  VerifyCase request;  // With the subdivisions that `shown` picks.
  Workload workload;   // Elements are float32.
};

// Title such as "RingReduce: all_reduce on 4x2, offsets 0".
std::string TitleOf(const ScheduleWords& words, const ScheduleRequest& request);

// Errors: UsageError for a name that is not registered, for an algorithm
// without plans (and without a stand-in that has plans), and for words that do
// not go with the algorithm or with each other.
absl::StatusOr<ScheduleRequest> ParseScheduleRequest(
    const ScheduleWords& words, const CollectiveRegistry& registry,
    int max_ranks);

// Adds options that fill `words`, which must outlive the parsing.
void AddScheduleOptions(CLI::App* app, int max_ranks, ScheduleWords* words);

// Bytes that each step of the plan moves. Sends and receives move their chunk;
// an empty chunk is not sent and counts 0. Other steps count 0. Pure. REQUIRES:
// the plan has the workload's collective and group size.
std::vector<int64_t> TransferBytes(const GroupPlan& plan,
                                   const Workload& workload);

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_SCHEDULE_REQUEST_H_
