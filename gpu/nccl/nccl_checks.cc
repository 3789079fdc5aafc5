#include "gpu/nccl/nccl_checks.h"

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "gpu/passes/gpu_members.h"
#include "tutti/gpu_devices.h"
#include "tutti/reduction.h"

namespace tutti {

std::string WhyNotWithNccl(DType dtype, const MergeOp& merge_op,
                           const FinalOp& final_op) {
  std::string why_not = WhyNotOnGpu(dtype, merge_op, final_op);
  if (!why_not.empty()) return why_not;
  if (IsInteger(dtype) && SizeOf(dtype) == 2) {
    return absl::StrCat("has no ", Name(dtype), ", which NCCL lacks");
  }
  switch (merge_op.kind()) {
    case ReductionKind::kSum:
    case ReductionKind::kProd:
    case ReductionKind::kMin:
    case ReductionKind::kMax:
      return "";
    default:
      return absl::StrCat("has no merge op \"", merge_op.name(),
                          "\", which NCCL lacks");
  }
}

absl::Status CheckHasNccl(const CollectiveContext& context) {
  RETURN_IF_ERROR(CheckIsCudaDevice(context));
  if (CudaDeviceOf(context).nccl() == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(context.params->instance->impl_details.implementation,
                     ": ", context.device->full_name(), " does not have NCCL"));
  }
  return absl::OkStatus();
}

}  // namespace tutti
