#include "gpu/nccl/nccl_collective.h"

#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "framework/collective/group_resources.h"
#include "gpu/nccl/nccl_group.h"
#include "gpu/nccl/runtime/nccl_keys.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/passes/gpu_meeting.h"
#include "tutti/gpu_devices.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

// Costs more than a pass of one GPU, which is half a message. Infinite between
// processes, where nothing has been measured: it runs there only when named.
double CostSeconds(const CostQuery& query) {
  const double size = query.layout.size();
  if (size == 1) return 0;
  if (!query.one_process && query.layout.num_tasks() > 1) {
    return std::numeric_limits<double>::infinity();
  }
  const LinkCost& link = query.model.within;
  return 0.75 * link.latency_seconds + (size - 1) / size *
                                           static_cast<double>(query.bytes) /
                                           link.bytes_per_second;
}

// NCCL lacks bool, integers of 16 bits, floats of 8 bits and complex numbers.
bool ReducesElements(DType dtype) {
  return IsInteger(dtype) ? SizeOf(dtype) != 2
                          : IsFloating(dtype) && SizeOf(dtype) != 1;
}

}  // namespace

std::string WhyNotWithNccl(DType dtype, const MergeOp& merge_op,
                           const FinalOp& final_op) {
  std::string why_not = WhyNotOnGpu(dtype, merge_op, final_op);
  if (!why_not.empty()) return why_not;
  if (!ReducesElements(dtype)) {
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

absl::Status NcclCollective::InitializeCollectiveGroupRuntimeDetails(
    CollGroupParams* group) {
  AddNcclKey(NcclKeys::Global(), group);
  return absl::OkStatus();
}

absl::Status NcclCollective::InitializeCollectiveContext(
    CollectiveContext* context) {
  RETURN_IF_ERROR(CheckHasNccl(*context));
  return NcclKeyOf(*context->params->group).status();
}

void NcclCollective::Run(const CollectiveContext& context,
                         StatusCallback done) {
  const CollectiveParams& params = *context.params;
  const auto group = params.group->resources->GetOrCreate<NcclGroup>();
  if (params.task->num_local < params.group->size()) {
    // Other processes may have launched.
    done = [group, done = std::move(done)](absl::Status status) mutable {
      if (!status.ok()) group->Break(status);
      std::move(done)(std::move(status));
    };
  }
  GpuMeeting& meeting = context.execution->Shared<GpuMeeting>();
  const GpuMembers members = meeting.Join(context, std::move(done));
  if (members.size() > 0) RunNcclPass(meeting, members, group, planner_);
}

ImplementationTraits NcclTraits(std::string summary,
                                std::vector<CollectiveType> collectives) {
  ImplementationTraits traits;
  traits.summary = std::move(summary);
  traits.collectives = std::move(collectives);
  traits.device_types = {CudaDevice::kType};
  traits.device_needs = {.library = kNcclLibrary, .own_units = true};
  traits.needs_communicator_key = true;
  traits.why_not_ops = WhyNotWithNccl;
  traits.determinism = Determinism::kByRankOrder;
  traits.cost_seconds = CostSeconds;
  return traits;
}

}  // namespace tutti
