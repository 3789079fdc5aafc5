#ifndef TUTTI_GPU_NCCL_NCCL_CHECKS_H_
#define TUTTI_GPU_NCCL_NCCL_CHECKS_H_

#include "absl/status/status.h"
#include "framework/collective_context.h"
#include "framework/params.h"

namespace tutti {

// What no implementation that calls NCCL can do without, of which the leader
// knows when it forms the group. Errors: INVALID_ARGUMENT naming two devices on
// one GPU.
absl::Status CheckOneDevicePerGpu(const CollGroupParams& group);

// Errors: as CheckOneDevicePerGpu(); UNIMPLEMENTED for what NCCL cannot do,
// naming what can.
absl::Status CheckNcclServes(const CollGroupParams& group,
                             const CollInstanceParams& instance);

// Errors: INVALID_ARGUMENT for a device that is no CudaDevice;
// FAILED_PRECONDITION for one without NCCL.
absl::Status CheckHasNccl(const CollectiveContext& context);

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_CHECKS_H_
