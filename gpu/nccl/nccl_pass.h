#ifndef TUTTI_GPU_NCCL_NCCL_PASS_H_
#define TUTTI_GPU_NCCL_NCCL_PASS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "gpu/nccl/nccl_group.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/passes/gpu_meeting.h"
#include "gpu/runtime/gpu_launch.h"
#include "tutti/implementation.h"
#include "tutti/tensor.h"

namespace tutti {

// Work of a member on its device's NCCL stream: kernels of ours, then all calls
// of NCCL at once, then kernels of ours.
struct NcclPlan {
  std::vector<GpuLaunch> before;
  std::vector<NcclCall> calls;
  std::vector<GpuLaunch> after;
  Tensor scratch;  // On the member's device; kept to the end.
};

// Plans the work of a member. An error ends the execution.
using NcclPlanner =
    absl::StatusOr<NcclPlan> (*)(const CollectiveContext& context);

// Runs an execution in one process, from the arrival of its last member here to
// its end, where it adjourns the meeting. REQUIRES: all members of this process
// have joined `meeting`.
void RunNcclPass(GpuMeeting& meeting, const GpuMembers& members,
                 std::shared_ptr<NcclGroup> group, NcclPlanner planner);

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_PASS_H_
