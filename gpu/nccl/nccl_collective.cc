#include "gpu/nccl/nccl_collective.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/device.h"
#include "framework/execution.h"
#include "framework/reduction_kind.h"
#include "gpu/cuda_device.h"
#include "gpu/gpu_meeting.h"
#include "gpu/gpu_members.h"
#include "gpu/nccl/nccl_group.h"
#include "gpu/nccl/nccl_keys.h"

namespace tutti {
namespace {

// Within a process more than a pass of one GPU, which is half a message; else a
// tenth of the model's links, which are those of gRPC. Not measured.
double CostSeconds(const CostQuery& query) {
  const double size = query.layout.size();
  if (size == 1) return 0;
  const bool is_within = query.one_process || query.layout.num_tasks() == 1;
  const LinkCost& link = is_within ? query.model.within : query.model.between;
  const double share = is_within ? 1 : 0.1;
  return share * (0.75 * link.latency_seconds +
                  (size - 1) / size * static_cast<double>(query.bytes) /
                      link.bytes_per_second);
}

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

absl::Status NcclCollective::InitializeCollectiveParams(
    const CollGroupParams& group, CollInstanceParams* instance) {
  absl::Status status = CheckOneDevicePerGpu(group);
  if (status.ok()) status = CheckOps(*instance);
  return status;
}

absl::Status NcclCollective::InitializeCollectiveGroupRuntimeDetails(
    CollGroupParams* group) {
  AddNcclKey(NcclKeys::Global(), group);
  return absl::OkStatus();
}

absl::Status NcclCollective::InitializeCollectiveContext(
    CollectiveContext* context) {
  absl::Status status = CheckIsCudaDevice(*context);
  if (!status.ok()) return status;
  if (CudaDeviceOf(*context).nccl() == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(context->params->instance->impl_details.implementation,
                     ": ", context->device->full_name(),
                     " was made without NCCL (CudaDevicesOptions::nccl)"));
  }
  return NcclKeyOf(*context->params->group).status();
}

void NcclCollective::Run(const CollectiveContext& context,
                         StatusCallback done) {
  const CollectiveParams& params = *context.params;
  const auto group = params.group->resources->GetOrCreate<NcclGroup>();
  if (params.task->num_local < params.group->size()) {
    // Other processes may have launched it.
    done = [group, done = std::move(done)](absl::Status status) mutable {
      if (!status.ok()) group->Break(status);
      std::move(done)(std::move(status));
    };
  }
  CudaDevice& device = CudaDeviceOf(context);
  absl::StatusOr<OwnedGpuEvent> ready = device.Mark(device.compute_stream());
  if (!ready.ok()) return std::move(done)(ready.status());
  GpuMeeting& meeting = context.execution->Shared<GpuMeeting>();
  const auto members =
      meeting.Join(context, *std::move(ready), std::move(done));
  if (members.empty()) return;
  std::make_shared<NcclPass>(meeting, GpuMembers(members), group)
      ->Start(planner_);
}

ImplementationTraits NcclTraits(std::string summary,
                                std::vector<CollectiveType> collectives) {
  ImplementationTraits traits;
  traits.summary = std::move(summary);
  traits.collectives = std::move(collectives);
  traits.device_types = {CudaDevice::kType};
  traits.determinism = Determinism::kByRankOrder;
  traits.cost_seconds = CostSeconds;
  return traits;
}

}  // namespace tutti
