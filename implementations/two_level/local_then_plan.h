#ifndef TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_PLAN_H_
#define TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "tutti/schedule.h"

namespace tutti {

// Plans one rank of the stand-in (stand_in.h) of a LocalThen (local_then.h).
// The first rank of each task does the work of the task's passes over memory.
// With tasks of three and of two ranks:
//
//   0 <- 1,2     3 <- 4     all send their inputs to the first rank, which
//                           reduces them in one step, in the order of ranks
//   0 <--------> 3          first ranks all-reduce by the schedule between
//   0 -> 1,2     3 -> 4     first ranks apply the final op and send the result
//
// Takes two steps more than the schedule. The last stage of a task begins when
// the schedule has ended on its first rank. In LocalThen, the last stage of
// each chunk does the same: the plan describes one chunk.
//
// REQUIRES for all functions here: FindInterTaskLevel(between) is OK.
Schedule PlanLocalThen(absl::string_view between, const PlanRequest& request);

// Returns the subdivisions that LocalThen chooses for a chunk of up to
// `chunk_bytes` bytes. REQUIRES: the algorithm between tasks has a `subdivide`
// function.
std::vector<int> SubdivideLocalThen(absl::string_view between,
                                    int64_t chunk_bytes,
                                    const SubdivisionRequest& request);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_PLAN_H_
