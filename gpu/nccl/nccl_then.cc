#include "gpu/nccl/nccl_then.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gpu/nccl/nccl_collective.h"
#include "gpu/nccl/nccl_intra_task_level.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/passes/gpu_meeting.h"
#include "schedule/engine/inter_task_level.h"
#include "schedule/engine/schedule_between_tasks.h"
#include "schedule/first_members.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

absl::Status CheckTasksAreProcesses(const CollectiveParams& params) {
  const GroupLayout& layout = *params.group->layout;
  const int task = layout.task_of(params.default_rank);
  for (int rank = 0; rank < params.group->size(); ++rank) {
    const bool is_here = params.task->is_local[static_cast<size_t>(rank)];
    if (is_here == (layout.task_of(rank) == task)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        params.instance->impl_details.implementation,
        " needs each task in a process of its own, but rank ", rank,
        " of task ", layout.task_of(rank), " is ", is_here ? "" : "not ",
        "in the process of rank ", params.default_rank, " of task ", task));
  }
  return absl::OkStatus();
}

// A device for steps that follow others of the same execution.
class DeviceForSteps : public Device {
 public:
  explicit DeviceForSteps(CudaDevice& device)
      : Device(device.attributes()), device_(device) {}

  absl::StatusOr<Tensor> Allocate(DType dtype,
                                  const TensorShape& shape) override {
    return device_.Allocate(dtype, shape);
  }
  bool has_host_memory() const override { return false; }
  absl::StatusOr<std::unique_ptr<StepStream>> OpenSteps(Clock& clock) override {
    return device_.OpenStepsInOrder(clock);
  }

 private:
  CudaDevice& device_;
};

class NcclThen : public CollectiveImplementationInterface {
 public:
  explicit NcclThen(std::unique_ptr<InterTaskLevel> between) {
    plan_.between = std::move(between);
  }

  // Errors: as NcclCollective; INVALID_ARGUMENT for a process with members of
  // several tasks; errors of the level between tasks.
  absl::Status InitializeCollectiveContext(
      CollectiveContext* context) override {
    const CollectiveParams& params = *context->params;
    absl::Status status = CheckIsCudaDevice(*context);
    if (status.ok()) status = CheckTasksAreProcesses(params);
    if (status.ok() && params.task->num_local > 1) {
      status = CheckHasNccl(*context);
    }
    if (status.ok()) status = plan_.between->Check(*context);
    if (!status.ok() || !IsFirstOfTask(params)) return status;
    std::call_once(once_, [&] {
      plan_.first_device =
          std::make_unique<DeviceForSteps>(CudaDeviceOf(*context));
      const bool is_alone = params.task->num_local == 1;
      status_ = plan_.between->Prepare(
          *context, is_alone ? context->input : context->output);
    });
    context->implementation_state = &plan_;
    return status_;
  }

  void Run(const CollectiveContext& context, StatusCallback done) override {
    GpuMeeting& meeting = context.execution->Shared<GpuMeeting>();
    const GpuMembers members = meeting.Join(context, std::move(done));
    if (members.size() == 0) return;
    RunNcclThen(meeting, members,
                *static_cast<const NcclThenPlan*>(
                    members.context(0).implementation_state));
  }

 private:
  NcclThenPlan plan_;
  std::once_flag once_;
  absl::Status status_;  // Result of the first preparation.
};

class Factory : public HybridFactory {
 public:
  using HybridFactory::HybridFactory;

  std::unique_ptr<CollectiveImplementationInterface> Create() const override {
    return std::make_unique<NcclThen>(MakeBetween());
  }
};

}  // namespace

std::shared_ptr<const CollectiveFactory> NcclThenFactory(std::string between,
                                                         int64_t chunk_bytes) {
  ImplementationTraits traits;
  traits.summary = absl::StrCat("NCCL within each process, ", between,
                                " among their first members");
  traits.collectives = {CollectiveType::kAllReduce};
  traits.device_types = {CudaDevice::kType};
  traits.device_needs = {
      .library = kNcclLibrary, .own_units = true, .within_tasks = true};
  traits.why_not_ops = WhyNotWithNccl;
  traits.determinism = Determinism::kNotGuaranteed;
  // Without a price it runs only by name: nothing of it has been measured.
  return std::make_shared<const Factory>(std::move(traits), std::move(between),
                                         chunk_bytes);
}

REGISTER_COLLECTIVE(NcclThenRing, NcclThenFactory("RingReduce"));
REGISTER_COLLECTIVE(NcclThenShuffle, NcclThenFactory("ShuffleReduce"));
REGISTER_COLLECTIVE(NcclThenRecursiveHalvingDoubling,
                    NcclThenFactory("RecursiveHalvingDoublingReduce"));

}  // namespace tutti
