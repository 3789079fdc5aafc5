#ifndef TUTTI_GPU_NCCL_NCCL_CHECKS_H_
#define TUTTI_GPU_NCCL_NCCL_CHECKS_H_

#include "absl/status/status.h"
#include "framework/collective_context.h"
#include "framework/params.h"

namespace tutti {

// Errors: UNIMPLEMENTED for what NCCL cannot do, naming what can.
absl::Status CheckNcclServes(const CollInstanceParams& instance);

// That what the leader has chosen can run on this device. Errors:
// INVALID_ARGUMENT for one that is no CudaDevice; FAILED_PRECONDITION for one
// without NCCL.
absl::Status CheckHasNccl(const CollectiveContext& context);

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_CHECKS_H_
