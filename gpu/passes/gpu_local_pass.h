#ifndef TUTTI_GPU_PASSES_GPU_LOCAL_PASS_H_
#define TUTTI_GPU_PASSES_GPU_LOCAL_PASS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpu/passes/gpu_meeting.h"
#include "gpu/passes/gpu_members.h"
#include "gpu/runtime/gpu_launch.h"
#include "tutti/gpu_devices.h"
#include "tutti/implementation.h"
#include "tutti/tensor.h"

namespace tutti {

// What one execution launches on a stream of the first member's device, in this
// order.
struct GpuPlan {
  std::vector<GpuLaunch> launches;
  Tensor scratch;  // Of the first member's device; gone after the last launch.
};

// A collective of GPU devices of this process whose memory the first one
// reaches: on the same GPU, or with links (CudaDevice). All of it runs on the
// first member's collective stream:
//
//   compute streams   .. input .|.        .|.. consumer ..   of every member
//                                \        /
//   collective stream             launches                   of the first one
//
// It waits for what each member's compute stream held when that member called.
// What is put on a compute stream once all members have called waits for it.
//
// `done` runs when the stream is past it, with the execution's error if it
// failed meanwhile. What fails before the launches ends at once and launches
// nothing. Where a GPU is spoilt, see GpuPassEnd.
class GpuLocalCollective : public CollectiveImplementationInterface {
 public:
  // What to launch for these members. Called when all are here. Errors end the
  // execution.
  using Planner = absl::StatusOr<GpuPlan> (*)(const GpuMembers& members);

  explicit GpuLocalCollective(Planner planner) : planner_(planner) {}

  // Errors: INVALID_ARGUMENT for a device that is no CudaDevice.
  absl::Status InitializeCollectiveContext(CollectiveContext* context) override;

  // Errors: FAILED_PRECONDITION naming two devices of which the first does not
  // reach the memory of the second; those of the runtime.
  void Run(const CollectiveContext& context, StatusCallback done) override;

 private:
  void RunAll(GpuMeeting& meeting, const GpuMembers& members);

  const Planner planner_;
};

// What they have in common: they are for GPU devices of one process and cost
// less than what sends.
ImplementationTraits GpuLocalTraits(std::string summary,
                                    std::vector<CollectiveType> collectives);

}  // namespace tutti

#endif  // TUTTI_GPU_PASSES_GPU_LOCAL_PASS_H_
