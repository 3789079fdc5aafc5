#include "gpu/nccl/nccl_then_pass.h"

#include <utility>

#include "framework/collective_executor.h"
#include "framework/dtype.h"
#include "framework/execution.h"
#include "framework/reduction_kind.h"
#include "gpu/cuda_device.h"
#include "gpu/gpu_reduction.h"

namespace tutti {

absl::StatusOr<std::string> NcclWithinProcess::Id(NcclRuntime& nccl) {
  std::call_once(once_, [&] { id_ = nccl.NewUniqueId(); });
  return id_;
}

NcclThenPass::NcclThenPass(GpuMeeting& meeting, const GpuMembers& members,
                           const NcclThenPlan& plan)
    : meeting_(meeting),
      members_(members),
      plan_(plan),
      nccl_(first().params->group->resources->GetOrCreate<NcclWithinProcess>()),
      pipeline_(plan.between->num_chunks(), first().execution->cancellation) {}

Clock& NcclThenPass::clock() const {
  return *first().executor->environment().clock;
}

void NcclThenPass::Start() {
  absl::Status status = Prepare();
  if (!status.ok()) return Adjourn(std::move(status));
  if (!is_alone()) {
    watch_ = first().execution->cancellation.Watch(
        [group = nccl_->group()](const absl::Status& reason) {
          group->Break(reason);
        });
  }
  {
    MutexLock lock(&mu_);
    LookLater();
  }
  GoOn();
}

absl::Status NcclThenPass::Prepare() {
  ready_ = meeting_.TakeReady();
  stages_.resize(static_cast<size_t>(plan_.between->num_chunks()));
  if (!is_alone() && plan_.between->num_chunks() > 0) {
    auto id = nccl_->Id(*members_.device(0).nccl());
    if (!id.ok()) return id.status();
    id_ = *std::move(id);
  }
  for (int place = 0; place < members_.size(); ++place) {
    CudaDevice& device = members_.device(place);
    auto end = GpuPassEnd::Create(device, device.nccl_stream(), clock());
    if (!end.ok()) return end.status();
    ends_.push_back(*std::move(end));
    absl::Status status = device.runtime().WaitForEvent(
        device.nccl_stream(), ready_[static_cast<size_t>(place)]);
    if (!status.ok()) return status;
  }
  return first().execution->cancellation.status();
}

NcclGroup::Options NcclThenPass::Options() const {
  NcclGroup::Options options = {
      .nccl = members_.device(0).nccl(),
      .id = id_,
      .size = members_.size(),
      .environment = first().executor->environment(),
      .cancellation = first().params->group->cancellation};
  for (int place = 0; place < members_.size(); ++place) {
    options.ranks.push_back(
        {.rank = place, .gpu = members_.device(place).gpu()});
  }
  return options;
}

void NcclThenPass::GoOn() {
  // The last one may end it inside.
  const auto self = shared_from_this();
  const ChunkPipeline::Next next = pipeline_.Take();
  if (next.to_meet.has_value()) Meet(*next.to_meet);
  if (next.to_reduce.has_value()) Reduce(*next.to_reduce);
  if (next.ends) End();
}

void NcclThenPass::LookLater() {
  alarm_ = clock().CallAt(clock().Now() + GpuPassEnd::kLookEvery,
                          [self = shared_from_this()] { self->Look(); });
}

// The members stay meanwhile, as in a stage.
void NcclThenPass::Look() {
  if (!pipeline_.BeginOther()) return;
  const absl::Status fault = FindFault();
  if (!fault.ok()) {
    Fail(fault);
  } else {
    MutexLock lock(&mu_);
    LookLater();
  }
  pipeline_.EndOther();
  GoOn();
}

absl::Status NcclThenPass::FindFault() {
  absl::Status fault = nccl_->group()->status();
  for (int place = 0; place < members_.size(); ++place) {
    CudaDevice& device = members_.device(place);
    // Finds whether the GPU is spoilt. Other errors keep nothing from ending.
    device.runtime().IsDone(ready_[static_cast<size_t>(place)]).IgnoreError();
    fault.Update(device.runtime().FirstError(device.gpu()));
  }
  return fault;
}

void NcclThenPass::Reduce(int64_t index) {
  if (is_alone()) return OnReduced(index, absl::OkStatus());
  Launch(
      {},
      [this, chunk = plan_.between->ChunkAt(index)](int place) {
        return CallOf(place, chunk, NcclOp::kReduce);
      },
      [self = shared_from_this(), index](absl::Status status) {
        self->OnReduced(index, std::move(status));
      });
}

void NcclThenPass::OnReduced(int64_t index, absl::Status status) {
  if (status.ok()) {
    CudaDevice& device = members_.device(0);
    auto reduced = device.Mark(device.nccl_stream());
    status = reduced.status();
    if (status.ok()) {
      stages_[static_cast<size_t>(index)].reduced = *std::move(reduced);
    }
  }
  if (!status.ok()) Fail(status);
  pipeline_.EndReduce();
  GoOn();
}

// In the first member's output, or from its input where it has the only one.
void NcclThenPass::Meet(int64_t index) {
  const Range chunk = plan_.between->ChunkAt(index);
  Stages& stages = stages_[static_cast<size_t>(index)];
  auto& context = stages.between;
  context = std::make_unique<CollectiveContext>();
  context->executor = first().executor;
  context->device = plan_.first_device.get();
  context->output = PartOf(first().output, chunk);
  context->input = is_alone() ? PartOf(first().input, chunk) : context->output;
  context->exec_key = first().exec_key;
  context->execution = first().execution;
  context->launched = true;  // Counted by End().
  // Not for what NCCL has been given since, which may be the chunk before.
  CudaDevice& device = members_.device(0);
  absl::Status status = device.runtime().WaitForEvent(
      device.collective_stream(), stages.reduced.get());
  if (!status.ok()) return OnMet(index, std::move(status));
  plan_.between->Run(index, *context,
                     [self = shared_from_this(), index](absl::Status met) {
                       self->OnMet(index, std::move(met));
                     });
}

void NcclThenPass::OnMet(int64_t index, absl::Status status) {
  const bool has_met = status.ok();
  if (!has_met) Fail(status);
  pipeline_.EndMeet(/*begins_spread=*/has_met);
  if (has_met) Spread(index);
  GoOn();
}

void NcclThenPass::Spread(int64_t index) {
  const Range chunk = plan_.between->ChunkAt(index);
  if (is_alone()) {
    CudaDevice& device = members_.device(0);
    return OnSpread(LaunchInOrder(device.runtime(), FinalOpOn(chunk),
                                  device.nccl_stream()));
  }
  Launch(
      FinalOpOn(chunk),
      [this, chunk](int place) {
        return CallOf(place, chunk, NcclOp::kBroadcast);
      },
      [self = shared_from_this()](absl::Status status) {
        self->OnSpread(std::move(status));
        self->GoOn();
      });
}

void NcclThenPass::OnSpread(absl::Status status) {
  if (!status.ok()) Fail(status);
  pipeline_.EndSpread();
}

void NcclThenPass::Launch(std::vector<GpuLaunch> before,
                          absl::AnyInvocable<NcclCall(int place)> call,
                          StatusCallback launched) {
  nccl_->group()->Add(
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
         absl::Status status =
             LaunchInOrder(members.device(0).runtime(), before,
                           members.device(0).nccl_stream());
         if (!status.ok()) return status;
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

NcclCall NcclThenPass::CallOf(int place, Range chunk, NcclOp op) const {
  const bool reduces = op == NcclOp::kReduce;
  const bool is_root = place == 0;
  const std::byte* const input =
      reduces ? members_.input(place) + BytesOf(chunk.begin) : Result(0, chunk);
  return {.op = op,
          .input = reduces || is_root ? input : nullptr,
          .output = reduces && !is_root ? nullptr : Result(place, chunk),
          .num_elements = static_cast<size_t>(chunk.size),
          .dtype = members_.instance().dtype,
          .kind = members_.instance().merge_op.kind(),
          .peer = 0};
}

std::vector<GpuLaunch> NcclThenPass::FinalOpOn(Range chunk) const {
  const CollInstanceParams& instance = members_.instance();
  if (instance.final_op.is_identity()) return {};
  return {GpuReduction{.kind = ReductionKind::kSum,
                       .dtype = instance.dtype,
                       .inputs = {Result(0, chunk)},
                       .outputs = {Result(0, chunk)},
                       .num_elements = static_cast<size_t>(chunk.size),
                       .divisor = first().params->group->size()}};
}

std::byte* NcclThenPass::Result(int place, Range chunk) const {
  return members_.output(place) + BytesOf(chunk.begin);
}

size_t NcclThenPass::BytesOf(int64_t num_elements) const {
  return static_cast<size_t>(num_elements) * SizeOf(members_.instance().dtype);
}

void NcclThenPass::Fail(const absl::Status& status) {
  first().executor->FailExecution(*first().execution, status);
}

// Nothing more is put on the streams.
void NcclThenPass::End() {
  {
    MutexLock lock(&mu_);
    num_parts_ = members_.size();
    clock().Cancel(alarm_);  // The ends look from here on.
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

void NcclThenPass::OnPartOver(absl::Status status) {
  // An abort lets streams go on too.
  if (!is_alone()) status.Update(nccl_->group()->status());
  if (!status.ok()) Fail(status);
  int num_launches = 0;
  {
    MutexLock lock(&mu_);
    if (--num_parts_ > 0) return;
    num_launches = num_launches_;
  }
  for (int i = 0; i < num_launches; ++i) nccl_->group()->Ended();
  Cancellation& cancellation = first().execution->cancellation;
  cancellation.Unwatch(watch_);
  Adjourn(cancellation.status());
}

void NcclThenPass::Adjourn(absl::Status status) {
  // The devices may go with the execution.
  stages_.clear();
  ends_.clear();
  meeting_.Adjourn(std::move(status));
}

}  // namespace tutti
