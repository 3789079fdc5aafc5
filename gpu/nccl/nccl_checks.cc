#include "gpu/nccl/nccl_checks.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/collective_type.h"
#include "framework/reduction_kind.h"
#include "gpu/cuda_device.h"
#include "gpu/gpu_members.h"

namespace tutti {
namespace {

absl::Status NoSuchOp(const char* what, absl::string_view name) {
  return absl::UnimplementedError(absl::StrCat(
      "NCCL has no ", what, " \"", name,
      "\": within one process GpuLocalReduce has all built-in ones, and on CPU "
      "devices LocalReduce, or RingReduce between processes, runs any"));
}

}  // namespace

// Nothing of our dtypes is missing: bool, which is only moved, goes as bytes.
absl::Status CheckNcclServes(const CollInstanceParams& instance) {
  if (!Reduces(instance.type)) return absl::OkStatus();
  const MergeOp& merge = instance.merge_op;
  if (merge.is_custom()) return NoSuchOp("merge op", merge.name());
  switch (merge.kind()) {
    case ReductionKind::kSum:
    case ReductionKind::kProd:
    case ReductionKind::kMin:
    case ReductionKind::kMax:
      break;
    default:
      return NoSuchOp("reduction", merge.name());
  }
  const FinalOp& final_op = instance.final_op;
  if (final_op.is_custom()) return NoSuchOp("final op", final_op.name());
  return absl::OkStatus();
}

absl::Status CheckHasNccl(const CollectiveContext& context) {
  absl::Status status = CheckIsCudaDevice(context);
  if (!status.ok()) return status;
  if (CudaDeviceOf(context).nccl() == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(context.params->instance->impl_details.implementation,
                     ": ", context.device->full_name(), " does not have NCCL"));
  }
  return absl::OkStatus();
}

}  // namespace tutti
