#ifndef TUTTI_GPU_GPU_LOCAL_PASS_H_
#define TUTTI_GPU_GPU_LOCAL_PASS_H_

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/collective_implementation.h"
#include "framework/implementation_traits.h"
#include "framework/local_meeting.h"
#include "framework/tensor.h"
#include "gpu/cuda_device.h"
#include "gpu/gpu_meeting.h"
#include "gpu/gpu_reduction.h"

namespace tutti {

// The members of one execution, on GPUs that reach each other's memory.
class GpuMembers {
 public:
  // All members, in rank order. They outlive this object.
  explicit GpuMembers(absl::Span<const Attendee> members) : members_(members) {}

  int size() const { return static_cast<int>(members_.size()); }
  const CollInstanceParams& instance() const {
    return *context(0).params->instance;
  }
  const CollectiveContext& context(int rank) const {
    return *members_[static_cast<size_t>(rank)].context;
  }
  CudaDevice& device(int rank) const;

  // Null where the member has none, or one without elements.
  const std::byte* input(int rank) const { return context(rank).input.data(); }
  std::byte* output(int rank) const;

 private:
  const absl::Span<const Attendee> members_;
};

// What one execution launches on a stream of the first member's device, in this
// order.
using GpuLaunch = std::variant<GpuReduction, GpuCopy>;
struct GpuPlan {
  std::vector<GpuLaunch> launches;
  Tensor scratch;  // Of the first member's device; gone after the last launch.
};

// Appends copies of `from` to all of `to` but those that are `from` itself.
void AppendCopies(const std::byte* from, const std::vector<std::byte*>& to,
                  size_t num_bytes, std::vector<GpuLaunch>* launches);

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

#endif  // TUTTI_GPU_GPU_LOCAL_PASS_H_
