#ifndef TUTTI_TOOLS_REQUEST_TRANSFER_BYTES_H_
#define TUTTI_TOOLS_REQUEST_TRANSFER_BYTES_H_

#include <cstdint>
#include <vector>

#include "schedule/group_plan.h"
#include "tools/request/workload.h"

namespace tutti {

// The bytes that each step of the plan moves: those of its chunk in sends and
// receives, which are 0 where a chunk is empty and so is not sent; 0 in other
// steps. Pure. REQUIRES: the plan is of that collective and group size.
std::vector<int64_t> TransferBytes(const GroupPlan& plan,
                                   const Workload& workload);

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_TRANSFER_BYTES_H_
