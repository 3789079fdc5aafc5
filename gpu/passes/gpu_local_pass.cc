#include "gpu/passes/gpu_local_pass.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "gpu/device/gpu_pass_end.h"
#include "tutti/device.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

// Costs half a message, and half the bytes of a ring.
double CostSeconds(const CostQuery& query) {
  const double size = query.layout.size();
  if (size == 1) return 0;
  const LinkCost& link = query.model.within;
  return link.latency_seconds / 2 + (size - 1) / size *
                                        static_cast<double>(query.bytes) /
                                        link.bytes_per_second;
}

// Checks again, because kernels without access would spoil the GPU. The leader
// has ruled this out, unless it has another version or another implementation
// of the same name.
absl::Status CheckFirstReachesAll(const GpuMembers& members) {
  const CudaDevice& first = members.device(0);
  for (int rank = 1; rank < members.size(); ++rank) {
    const CudaDevice& other = members.device(rank);
    if (first.Reaches(other)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        members.instance().impl_details.implementation,
        " needs a first member that reaches the memory of all: ",
        first.full_name(), " does not reach that of ", other.full_name()));
  }
  return absl::OkStatus();
}

absl::Status WaitForAll(CudaDevice& device,
                        const std::vector<GpuEvent>& events) {
  for (const GpuEvent event : events) {
    RETURN_IF_ERROR(
        device.runtime().WaitForEvent(device.collective_stream(), event));
  }
  return absl::OkStatus();
}

struct Prepared {
  GpuPlan plan;
  std::shared_ptr<GpuPassEnd> end;
};

// Prepares everything but the launch. Leaves nothing behind after an error: the
// devices may be destroyed with the execution.
absl::StatusOr<Prepared> Prepare(const GpuMembers& members,
                                 GpuLocalCollective::Planner planner,
                                 const std::vector<GpuEvent>& ready) {
  CudaDevice& first = members.device(0);
  RETURN_IF_ERROR(CheckFirstReachesAll(members));
  ASSIGN_OR_RETURN(GpuPlan plan, planner(members));
  ASSIGN_OR_RETURN(
      auto end,
      GpuPassEnd::Create(first, first.collective_stream(),
                         *members.context(0).executor->environment().clock));
  absl::Status status = WaitForAll(first, ready);
  status.Update(members.context(0).execution->cancellation.status());
  if (!status.ok()) return status;
  return Prepared{std::move(plan), std::move(end)};
}

// Launches the plan, and makes all compute streams wait for its end. Frees the
// scratch.
absl::Status LaunchAll(const GpuMembers& members, GpuPlan plan,
                       GpuPassEnd& end) {
  CudaDevice& first = members.device(0);
  absl::Status status =
      LaunchInOrder(first.runtime(), plan.launches, first.collective_stream());
  if (status.ok()) status = end.Mark();
  for (int rank = 0; status.ok() && rank < members.size(); ++rank) {
    status = end.OrderBefore(members.device(rank).compute_stream());
  }
  return status;
}

}  // namespace

absl::Status GpuLocalCollective::InitializeCollectiveContext(
    CollectiveContext* context) {
  return CheckIsCudaDevice(*context);
}

void GpuLocalCollective::Run(const CollectiveContext& context,
                             StatusCallback done) {
  GpuMeeting& meeting = context.execution->Shared<GpuMeeting>();
  const GpuMembers members = meeting.Join(context, std::move(done));
  if (members.size() > 0) RunAll(meeting, members);
}

void GpuLocalCollective::RunAll(GpuMeeting& meeting,
                                const GpuMembers& members) {
  const Cancellation& cancellation = members.context(0).execution->cancellation;
  const std::vector<GpuEvent> ready = meeting.TakeReady();
  absl::StatusOr<Prepared> prepared = Prepare(members, planner_, ready);
  if (!prepared.ok()) return meeting.Adjourn(prepared.status());
  // From here on the stream may use the members' buffers.
  absl::Status status =
      LaunchAll(members, std::move(prepared->plan), *prepared->end);
  for (int rank = 0; rank < members.size(); ++rank) {
    const CollectiveContext& context = members.context(rank);
    context.executor->Launched(context);
  }
  prepared->end->CallWhenOver(
      ready, [&meeting, &cancellation,
              launched = std::move(status)](absl::Status ended) {
        ended.Update(launched);
        ended.Update(cancellation.status());
        meeting.Adjourn(std::move(ended));
      });
}

ImplementationTraits GpuLocalTraits(std::string summary,
                                    std::vector<CollectiveType> collectives) {
  ImplementationTraits traits;
  traits.summary =
      absl::StrCat(summary,
                   ", where all members are in one process and the GPU of the "
                   "first one reaches the memory of all");
  traits.collectives = std::move(collectives);
  traits.device_types = {CudaDevice::kType};
  traits.device_needs = {.first_reaches_all = true};
  traits.needs_one_process = true;
  traits.determinism = Determinism::kByRankOrder;
  traits.cost_seconds = CostSeconds;
  return traits;
}

}  // namespace tutti
