#ifndef TUTTI_GPU_NCCL_NCCL_CHECKS_H_
#define TUTTI_GPU_NCCL_NCCL_CHECKS_H_

#include <string>

#include "absl/status/status.h"
#include "tutti/implementation.h"
#include "tutti/reduction.h"

namespace tutti {

// Why NCCL cannot reduce with these (ImplementationTraits::why_not_ops).
std::string WhyNotWithNccl(const MergeOp& merge_op, const FinalOp& final_op);

// That what the leader has chosen can run on this device. Errors:
// INVALID_ARGUMENT for one that is no CudaDevice; FAILED_PRECONDITION for one
// without NCCL.
absl::Status CheckHasNccl(const CollectiveContext& context);

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_CHECKS_H_
