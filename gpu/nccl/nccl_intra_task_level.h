#ifndef TUTTI_GPU_NCCL_NCCL_INTRA_TASK_LEVEL_H_
#define TUTTI_GPU_NCCL_NCCL_INTRA_TASK_LEVEL_H_

#include <memory>

#include "gpu/passes/gpu_meeting.h"
#include "schedule/engine/inter_task_level.h"
#include "tutti/device.h"

namespace tutti {

// State shared by all executions of an instance in this process.
struct NcclThenPlan {
  // Device of the first member, for the steps. They wait for earlier work of
  // the collective stream, but not for the compute stream: it may hold work
  // that was put there after the call.
  std::unique_ptr<Device> first_device;

  std::unique_ptr<InterTaskLevel> between;
};

// Runs an execution of NcclThen in one process, and adjourns the meeting at the
// end. REQUIRES: all members of this process have joined `meeting`. The plan
// outlives the execution.
void RunNcclThen(GpuMeeting& meeting, const GpuMembers& members,
                 const NcclThenPlan& plan);

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_INTRA_TASK_LEVEL_H_
