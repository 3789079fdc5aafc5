#ifndef TUTTI_TOOLS_REQUEST_TRANSFER_BYTES_H_
#define TUTTI_TOOLS_REQUEST_TRANSFER_BYTES_H_

#include <cstdint>
#include <vector>

#include "schedule/group_plan.h"
#include "tools/request/workload.h"

namespace tutti {

// Bytes that each step of the plan moves. Sends and receives move their chunk;
// an empty chunk is not sent and counts 0. Other steps count 0. Pure. REQUIRES:
// the plan has the workload's collective and group size.
std::vector<int64_t> TransferBytes(const GroupPlan& plan,
                                   const Workload& workload);

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_TRANSFER_BYTES_H_
