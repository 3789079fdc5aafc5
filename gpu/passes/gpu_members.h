#ifndef TUTTI_GPU_PASSES_GPU_MEMBERS_H_
#define TUTTI_GPU_PASSES_GPU_MEMBERS_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/executor/local_meeting.h"
#include "tutti/gpu_devices.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

// Errors: INVALID_ARGUMENT for a device that CreateCudaDevices() did not make.
absl::Status CheckIsCudaDevice(const CollectiveContext& context);

// Reason why kernels cannot run these ops (ImplementationTraits::why_not_ops):
// custom ops are functions of the host.
std::string WhyNotOnGpu(DType, const MergeOp& merge_op,
                        const FinalOp& final_op);

// REQUIRES: CheckIsCudaDevice() was OK.
CudaDevice& CudaDeviceOf(const CollectiveContext& context);

// Memory for the member's output. Null if it has no output or no elements.
std::byte* OutputOf(const CollectiveContext& context);

// Members of an execution that are on GPUs of this process. Places follow rank
// order: if all members are here, place and rank are equal.
class GpuMembers {
 public:
  // REQUIRES: `members` outlive this object.
  explicit GpuMembers(absl::Span<const Attendee> members) : members_(members) {}

  int size() const { return static_cast<int>(members_.size()); }
  const CollInstanceParams& instance() const {
    return *context(0).params->instance;
  }
  const CollectiveContext& context(int place) const {
    return *members_[static_cast<size_t>(place)].context;
  }
  CudaDevice& device(int place) const;

  // Null if the member has none, or no elements.
  const std::byte* input(int place) const {
    return context(place).input.data();
  }
  std::byte* output(int place) const;

 private:
  const absl::Span<const Attendee> members_;
};

}  // namespace tutti

#endif  // TUTTI_GPU_PASSES_GPU_MEMBERS_H_
