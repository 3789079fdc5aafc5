#include "gpu/nccl/nccl_intra_task_level.h"

#include <limits>
#include <utility>

#include "framework/base/status_macros.h"
#include "framework/collective/group_resources.h"
#include "gpu/kernels/gpu_reduction.h"
#include "tutti/executor.h"
#include "tutti/gpu_devices.h"
#include "tutti/implementation.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

absl::StatusOr<std::string> TaskCommunicator::Id(NcclRuntime& nccl) {
  std::call_once(once_, [&] { id_ = nccl.NewUniqueId(); });
  return id_;
}

NcclIntraTaskLevel::NcclIntraTaskLevel(GpuMeeting& meeting,
                                       const GpuMembers& members,
                                       const NcclThenPlan& plan)
    : meeting_(meeting),
      members_(members),
      plan_(plan),
      communicator_(
          first().params->group->resources->GetOrCreate<TaskCommunicator>()) {}

Clock& NcclIntraTaskLevel::clock() const {
  return *first().executor->environment().clock;
}

void NcclIntraTaskLevel::Start() {
  absl::Status status = Prepare();
  if (!status.ok()) return Adjourn(std::move(status));
  if (!is_alone()) {
    watch_ = first().execution->cancellation.Watch(
        [group = communicator_->group()](const absl::Status& reason) {
          group->Break(reason);
        });
  }
  const auto run = std::make_shared<HierarchicalRun>(shared_from_this(),
                                                     *plan_.between, first());
  LookLater(run);
  run->Start();
}

absl::Status NcclIntraTaskLevel::Prepare() {
  ready_ = meeting_.TakeReady();
  reduced_.resize(static_cast<size_t>(plan_.between->num_chunks()));
  if (!is_alone() && plan_.between->num_chunks() > 0) {
    ASSIGN_OR_RETURN(id_, communicator_->Id(*members_.device(0).nccl()));
  }
  for (int place = 0; place < members_.size(); ++place) {
    CudaDevice& device = members_.device(place);
    ASSIGN_OR_RETURN(auto end,
                     GpuPassEnd::Create(device, device.nccl_stream(), clock()));
    ends_.push_back(std::move(end));
    RETURN_IF_ERROR(device.runtime().WaitForEvent(
        device.nccl_stream(), ready_[static_cast<size_t>(place)]));
  }
  return first().execution->cancellation.status();
}

NcclGroup::Options NcclIntraTaskLevel::Options() const {
  NcclGroup::Options options = {
      .nccl = members_.device(0).nccl(),
      .id = id_,
      .size = members_.size(),
      .environment = first().executor->environment(),
      .cancellation = first().params->group->cancellation,
      // Unbounded: launches of an execution end with it, and follow each other.
      .most_running = std::numeric_limits<int>::max()};
  for (int place = 0; place < members_.size(); ++place) {
    options.ranks.push_back(
        {.rank = place, .gpu = members_.device(place).gpu()});
  }
  return options;
}

void NcclIntraTaskLevel::LookLater(const RunPtr& run) {
  MutexLock lock(&mu_);
  // The run keeps this object alive.
  alarm_ = clock().CallAt(clock().Now() + GpuPassEnd::kLookEvery, [this, run] {
    run->Meanwhile([&] {
      const absl::Status fault = FindFault();
      if (fault.ok()) LookLater(run);
      return fault;
    });
  });
}

absl::Status NcclIntraTaskLevel::FindFault() {
  absl::Status fault = communicator_->group()->status();
  for (int place = 0; place < members_.size(); ++place) {
    CudaDevice& device = members_.device(place);
    // Finds whether the GPU is spoilt. Other errors do not delay the end.
    device.runtime().IsDone(ready_[static_cast<size_t>(place)]).IgnoreError();
    fault.Update(device.runtime().FirstError(device.gpu()));
  }
  return fault;
}

void NcclIntraTaskLevel::Reduce(Chunk chunk, StatusCallback done) {
  if (is_alone()) return std::move(done)(MarkReduced(chunk.index));
  Launch(
      {},
      [this, elements = chunk.elements](int place) {
        return CallOf(place, elements, NcclOp::kReduce);
      },
      [self = shared_from_this(), index = chunk.index,
       done = std::move(done)](absl::Status status) mutable {
        if (status.ok()) status = self->MarkReduced(index);
        std::move(done)(std::move(status));
      });
}

absl::Status NcclIntraTaskLevel::MarkReduced(int64_t index) {
  CudaDevice& device = members_.device(0);
  ASSIGN_OR_RETURN(auto reduced, device.Mark(device.nccl_stream()));
  reduced_[static_cast<size_t>(index)] = std::move(reduced);
  return absl::OkStatus();
}

// Reduces in the first member's output; a single member reduces from its input.
absl::Status NcclIntraTaskLevel::BeginMeet(Chunk chunk,
                                           CollectiveContext& context) {
  context.device = plan_.first_device.get();
  context.input = is_alone() ? first().input : first().output;
  context.output = first().output;
  // Waits only for this chunk, not for later calls of NCCL, e.g. of the chunk
  // before.
  CudaDevice& device = members_.device(0);
  return device.runtime().WaitForEvent(
      device.collective_stream(),
      reduced_[static_cast<size_t>(chunk.index)].get());
}

void NcclIntraTaskLevel::Spread(Chunk chunk, StatusCallback done) {
  if (is_alone()) {
    CudaDevice& device = members_.device(0);
    return std::move(done)(LaunchInOrder(
        device.runtime(), FinalOpOn(chunk.elements), device.nccl_stream()));
  }
  Launch(
      FinalOpOn(chunk.elements),
      [this, elements = chunk.elements](int place) {
        return CallOf(place, elements, NcclOp::kBroadcast);
      },
      std::move(done));
}

void NcclIntraTaskLevel::Launch(std::vector<GpuLaunch> before,
                                absl::AnyInvocable<NcclCall(int place)> call,
                                StatusCallback launched) {
  communicator_->group()->Add(
      [this] { return Options(); },
      {.key = first().exec_key,
       .begin = [self = shared_from_this(), before = std::move(before),
                 call = std::move(call)](
                    const NcclTicket& /*ticket*/,
                    absl::Span<const NcclComm> comms) mutable
           -> absl::StatusOr<std::vector<NcclPart>> {
         {
           MutexLock lock(&self->mu_);
           ++self->num_launches_;
         }
         const GpuMembers& members = self->members_;
         RETURN_IF_ERROR(LaunchInOrder(members.device(0).runtime(), before,
                                       members.device(0).nccl_stream()));
         std::vector<NcclPart> parts;
         for (int place = 0; place < members.size(); ++place) {
           parts.push_back({.comm = comms[static_cast<size_t>(place)],
                            .stream = members.device(place).nccl_stream(),
                            .calls = {call(place)}});
         }
         return parts;
       },
       .launched = std::move(launched)});
}

NcclCall NcclIntraTaskLevel::CallOf(int place, Range elements,
                                    NcclOp op) const {
  const bool reduces = op == NcclOp::kReduce;
  const bool is_root = place == 0;
  const std::byte* const input =
      reduces ? members_.input(place) + BytesOf(elements.begin)
              : Result(0, elements);
  return {.op = op,
          .input = reduces || is_root ? input : nullptr,
          .output = reduces && !is_root ? nullptr : Result(place, elements),
          .num_elements = static_cast<size_t>(elements.size),
          .dtype = members_.instance().dtype,
          .kind = members_.instance().merge_op.kind(),
          .peer = 0};
}

std::vector<GpuLaunch> NcclIntraTaskLevel::FinalOpOn(Range elements) const {
  const CollInstanceParams& instance = members_.instance();
  if (instance.final_op.is_identity()) return {};
  return {GpuReduction{.kind = ReductionKind::kSum,
                       .dtype = instance.dtype,
                       .inputs = {Result(0, elements)},
                       .outputs = {Result(0, elements)},
                       .num_elements = static_cast<size_t>(elements.size),
                       .divisor = first().params->group->size()}};
}

std::byte* NcclIntraTaskLevel::Result(int place, Range elements) const {
  return members_.output(place) + BytesOf(elements.begin);
}

size_t NcclIntraTaskLevel::BytesOf(int64_t num_elements) const {
  return static_cast<size_t>(num_elements) * SizeOf(members_.instance().dtype);
}

void NcclIntraTaskLevel::Fail(const absl::Status& status) {
  first().executor->FailExecution(*first().execution, status);
}

// Called when nothing more is put on the streams.
void NcclIntraTaskLevel::End() {
  {
    MutexLock lock(&mu_);
    num_parts_ = members_.size();
    clock().Cancel(alarm_);  // The ends now look for errors.
  }
  for (int place = 0; place < members_.size(); ++place) {
    GpuPassEnd& end = *ends_[static_cast<size_t>(place)];
    absl::Status status = end.Mark();
    if (status.ok()) {
      status = end.OrderBefore(members_.device(place).compute_stream());
    }
    if (!status.ok()) Fail(status);
  }
  for (int place = 0; place < members_.size(); ++place) {
    first().executor->Launched(members_.context(place));
  }
  const std::vector<std::shared_ptr<GpuPassEnd>> ends = ends_;
  const std::vector<GpuEvent> ready = ready_;
  for (size_t place = 0; place < ends.size(); ++place) {
    ends[place]->CallWhenOver({ready[place]},
                              [self = shared_from_this()](absl::Status over) {
                                self->OnPartOver(std::move(over));
                              });
  }
}

void NcclIntraTaskLevel::OnPartOver(absl::Status status) {
  // Streams also go on after an abort.
  if (!is_alone()) status.Update(communicator_->group()->status());
  if (!status.ok()) Fail(status);
  int num_launches = 0;
  {
    MutexLock lock(&mu_);
    if (--num_parts_ > 0) return;
    num_launches = num_launches_;
  }
  for (int i = 0; i < num_launches; ++i) communicator_->group()->Ended();
  Cancellation& cancellation = first().execution->cancellation;
  cancellation.Unwatch(watch_);
  Adjourn(cancellation.status());
}

void NcclIntraTaskLevel::Adjourn(absl::Status status) {
  // Freed first: the devices may be destroyed with the execution.
  reduced_.clear();
  ends_.clear();
  meeting_.Adjourn(std::move(status));
}

}  // namespace tutti
