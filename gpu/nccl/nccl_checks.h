#ifndef TUTTI_GPU_NCCL_NCCL_CHECKS_H_
#define TUTTI_GPU_NCCL_NCCL_CHECKS_H_

#include <string>

#include "absl/status/status.h"
#include "tutti/implementation.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

// Reason why NCCL cannot reduce elements of `dtype` with these ops
// (ImplementationTraits::why_not_ops).
std::string WhyNotWithNccl(DType dtype, const MergeOp& merge_op,
                           const FinalOp& final_op);

// Checks that NCCL's collectives can run on this device. Errors:
// INVALID_ARGUMENT for a device that is no CudaDevice; FAILED_PRECONDITION for
// a device without NCCL.
absl::Status CheckHasNccl(const CollectiveContext& context);

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_CHECKS_H_
