#include "gpu/nccl/nccl_checks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/collective_type.h"
#include "framework/device.h"
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

// Nothing of our dtypes is missing: bool, which is only moved, goes as bytes.
absl::Status CheckOps(const CollInstanceParams& instance) {
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

}  // namespace

absl::Status CheckOneDevicePerGpu(const CollGroupParams& group) {
  for (const CollGroupMember& member : group.members) {
    for (const DeviceLink& link : member.device.locality.links) {
      if (link.strength != CudaDevice::kSameGpuStrength) continue;
      const auto other = std::find_if(
          group.members.begin(), group.members.end(),
          [&](const CollGroupMember& candidate) {
            const DeviceName& name = candidate.device.name;
            return name.index == link.device_index &&
                   name.TaskName() == member.device.name.TaskName();
          });
      if (other == group.members.end()) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "NCCL wants each member on a GPU of its own, but ",
          member.device.name.ToString(), " and ", other->device.name.ToString(),
          " are on one: use GpuLocalReduce, GpuLocalGather or "
          "GpuLocalBroadcast, or one device per GPU"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNcclServes(const CollGroupParams& group,
                             const CollInstanceParams& instance) {
  absl::Status status = CheckOneDevicePerGpu(group);
  if (status.ok()) status = CheckOps(instance);
  return status;
}

absl::Status CheckHasNccl(const CollectiveContext& context) {
  absl::Status status = CheckIsCudaDevice(context);
  if (!status.ok()) return status;
  if (CudaDeviceOf(context).nccl() == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(context.params->instance->impl_details.implementation,
                     ": ", context.device->full_name(),
                     " was made without NCCL (CudaDevicesOptions::nccl)"));
  }
  return absl::OkStatus();
}

}  // namespace tutti
