#ifndef TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_PLAN_H_
#define TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "tutti/schedule.h"

namespace tutti {

// What one rank does in the stand-in (stand_in.h) of a LocalThen
// (local_then.h): the first rank of each task does for it what its passes over
// memory do. With tasks of three ranks and of two:
//
//   0 <- 1,2     3 <- 4     all send the first what they have, which reduces it
//                           in one step, in the order of ranks
//   0 <--------> 3          the first ones all-reduce by the schedule between
//   0 -> 1,2     3 -> 4     each applies the final op, and sends the result
//
// Two steps and those of the schedule. The last stage of a task begins when the
// schedule has ended on its first rank, as that of a chunk does in LocalThen:
// this is what happens to each chunk.
//
// REQUIRES of all here: FindBetweenTasks(between) is OK.
Schedule PlanLocalThen(absl::string_view between, const PlanRequest& request);

// Those that LocalThen chooses for a chunk of up to so many bytes. REQUIRES:
// the algorithm between chooses some.
std::vector<int> SubdivideLocalThen(absl::string_view between,
                                    int64_t chunk_bytes,
                                    const SubdivisionRequest& request);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_PLAN_H_
