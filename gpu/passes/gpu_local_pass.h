#ifndef TUTTI_GPU_PASSES_GPU_LOCAL_PASS_H_
#define TUTTI_GPU_PASSES_GPU_LOCAL_PASS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpu/passes/gpu_meeting.h"
#include "gpu/runtime/gpu_launch.h"
#include "tutti/gpu_devices.h"
#include "tutti/implementation.h"
#include "tutti/tensor.h"

namespace tutti {

// Launches of an execution on a stream of the first member's device, in order.
struct GpuPlan {
  std::vector<GpuLaunch> launches;
  Tensor scratch;  // On the first device; freed after the last launch.
};

// Collective of GPU devices of this process, whose memory the first one
// reaches: on the same GPU, or through links (CudaDevice). Everything runs on
// the first member's collective stream:
//
//   compute streams   .. input .|.        .|.. consumer ..   of every member
//                                \        /
//   collective stream             launches                   of the first one
//
// This stream waits for the work that each compute stream held when its member
// called. Work put on a compute stream after all members have called waits for
// the launches.
//
// `done` runs when the stream has passed the launches, with the execution's
// error if it failed meanwhile. An error before the launches ends the execution
// at once, without launches. For spoilt GPUs see GpuPassEnd.
class GpuLocalCollective : public CollectiveImplementationInterface {
 public:
  // Plans the launches. Called when all members have arrived. An error ends the
  // execution.
  using Planner = absl::StatusOr<GpuPlan> (*)(const GpuMembers& members);

  explicit GpuLocalCollective(Planner planner) : planner_(planner) {}

  // Errors: INVALID_ARGUMENT for a device that is no CudaDevice.
  absl::Status InitializeCollectiveContext(CollectiveContext* context) override;

  // Errors: FAILED_PRECONDITION if the first member's device does not reach the
  // memory of another, naming both; errors of the runtime.
  void Run(const CollectiveContext& context, StatusCallback done) override;

 private:
  void RunAll(GpuMeeting& meeting, const GpuMembers& members);

  const Planner planner_;
};

// The collective of a planner.
template <GpuLocalCollective::Planner kPlanner>
class GpuLocalPlanned : public GpuLocalCollective {
 public:
  GpuLocalPlanned() : GpuLocalCollective(kPlanner) {}
};

// Traits shared by GpuLocalCollectives: for GPU devices of one process, and
// cheaper than collectives that send.
ImplementationTraits GpuLocalTraits(std::string summary,
                                    std::vector<CollectiveType> collectives);

}  // namespace tutti

#endif  // TUTTI_GPU_PASSES_GPU_LOCAL_PASS_H_
