#include "framework/executor/member_op.h"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/rank_list.h"
#include "framework/base/status_macros.h"
#include "framework/base/trampoline.h"
#include "framework/collective/member_params.h"
#include "framework/collective/request_fields.h"
#include "framework/executor/member_buffers.h"
#include "framework/executor/prepared_op.h"
#include "framework/tensor/device_copies.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

// Rounds to milliseconds, or to microseconds below one millisecond.
std::string Rounded(absl::Duration duration) {
  const absl::Duration unit = duration < absl::Milliseconds(1)
                                  ? absl::Microseconds(1)
                                  : absl::Milliseconds(1);
  return absl::FormatDuration(absl::Trunc(duration, unit));
}

// Checks a joined member's arguments, as far as possible without the group.
absl::Status CheckTogether(const CollectiveArgs& args, bool is_preparation) {
  if (args.segments != nullptr &&
      (args.input.is_set() || args.output != nullptr)) {
    return absl::InvalidArgumentError(absl::StrCat(
        args.device->full_name(), " called ", InstanceLabel(*args.request),
        ", with segments and ", args.input.is_set() ? "an input" : "an output",
        " besides"));
  }
  if (is_preparation && args.execution.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(args.device->full_name(), " prepared execution ",
                     *args.execution, " of ", InstanceLabel(*args.request),
                     "; what is prepared counts its executions itself"));
  }
  return absl::OkStatus();
}

// Refuses memory that the implementation cannot reach. An implementation for
// any device, not made of steps, reads and writes host memory.
absl::Status CheckMemory(const ImplementationTraits& traits,
                         const CollectiveParams& params, const Device& device) {
  if (device.has_host_memory() || !traits.device_types.empty() ||
      traits.is_made_of_steps) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(absl::StrCat(
      params.instance->impl_details.implementation,
      " works in the host's memory; ", device.full_name(), " has its own"));
}

// Adds the caller to its reason, for the other members.
absl::Status WithCaller(const absl::Status& reason, absl::string_view caller) {
  absl::Status status(
      reason.code(),
      absl::StrCat(reason.message(), " (", caller, " cancelled its call)"));
  reason.ForEachPayload(
      [&status](absl::string_view type_url, const absl::Cord& payload) {
        status.SetPayload(type_url, payload);
      });
  return status;
}

}  // namespace

MemberOp::MemberOp(std::shared_ptr<CollectiveExecutor> executor,
                   CollectiveArgs args, StatusCallback done)
    : executor_(std::move(executor)),
      args_(std::move(args)),
      done_(std::move(done)) {
  if (done_ == nullptr) done_ = [](absl::Status) {};
}

MemberOp::MemberOp(std::shared_ptr<CollectiveExecutor> executor,
                   CollectiveArgs args,
                   CollectiveExecutor::PrepareCallback done)
    : executor_(std::move(executor)),
      args_(std::move(args)),
      done_([this, done = std::move(done)](absl::Status status) mutable {
        if (done == nullptr) return;
        if (!status.ok()) return std::move(done)(std::move(status));
        std::move(done)(
            std::move(prepared_));  // EndPreparation() keeps this object.
      }),
      is_preparation_(true) {}

void MemberOp::Start() {
  absl::Status status = CheckArgs();
  if (status.ok()) status = Join();
  if (!status.ok()) {  // No other member knows of the call yet.
    const absl::Status aborted = executor_->status();
    return Refuse(aborted.ok() ? status : aborted);
  }
  if (args_.cancellation != nullptr) WatchCancellation();
  if (args_.deadline != absl::InfiniteFuture()) ArmDeadline();
  if (core_.aborted().cancelled()) {
    core_.FailExecution(*execution_, executor_->status());
  }
  if (execution_->cancellation.cancelled()) {
    return Finish(execution_->cancellation.status());
  }
  status = std::move(join_status_);
  status.Update(CheckTogether(args_, is_preparation_));
  if (!status.ok()) return Finish(std::move(status));
  if (!IsSettled()) return Resolve();
  status = CheckSameRequest(*settled_->request, *args_.request);
  if (status.ok()) status = TakeOwnRows();
  if (!status.ok()) return Finish(std::move(status));
  Prepare();
}

// Checks who calls what. Without these two, nobody waits for the call.
absl::Status MemberOp::CheckArgs() const {
  if (args_.device == nullptr) {
    return absl::InvalidArgumentError(
        "a collective was called without a device");
  }
  if (!core_.options().devices->Owns(args_.device)) {
    return absl::InvalidArgumentError(
        absl::StrCat(args_.device->full_name(),
                     " is not one of the devices of this executor's manager"));
  }
  if (args_.request == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        args_.device->full_name(), " called a collective without a request"));
  }
  return absl::OkStatus();
}

absl::Status MemberOp::Join() {
  ExecutionTable& executions = core_.executions();
  const auto owner = [this] { return executor_; };
  ASSIGN_OR_RETURN(
      auto joined,
      is_preparation_
          ? executions.JoinPreparation(args_.device, *args_.request, owner)
          : executions.Join(args_.device, *args_.request, args_.execution,
                            owner));
  execution_ = std::move(joined.execution);
  join_status_ = std::move(joined.status);
  settled_ = std::move(joined.settled);
  for (const ExecKey& key : joined.forgotten.keys) {
    executor_->peers().ForgetExecution(key);
  }
  return absl::OkStatus();
}

void MemberOp::WatchCancellation() {
  // Copies the name: the device may be gone when a late reason comes.
  watch_ = args_.cancellation->Watch([weak = weak_from_this(),
                                      caller = args_.device->full_name()](
                                         const absl::Status& reason) {
    const auto self = weak.lock();
    if (self == nullptr || self->finished_) return;
    self->core_.FailExecution(*self->execution_, WithCaller(reason, caller));
  });
}

void MemberOp::ArmDeadline() {
  Clock& clock = *executor_->environment().clock;
  start_ = clock.Now();
  if (start_ >= args_.deadline) return OnDeadline(args_.device->full_name());
  // Copies the name: the device may be gone when a late alarm runs.
  alarm_ = clock.CallAt(args_.deadline, [weak = weak_from_this(),
                                         caller = args_.device->full_name()] {
    const auto self = weak.lock();
    if (self != nullptr && !self->finished_) self->OnDeadline(caller);
  });
}

void MemberOp::OnDeadline(const std::string& caller) {
  core_.FailExecution(
      *execution_,
      absl::DeadlineExceededError(absl::StrCat(
          Name(TypeOf(args_.request->op)), " of group ",
          args_.request->group_key, ", instance ", args_.request->instance_key,
          ", called by ", caller, ": the deadline passed after ",
          Rounded(executor_->environment().clock->Now() - start_), ", ",
          DescribeWait())));
}

std::string MemberOp::DescribeWait() const {
  switch (phase_.load()) {
    case Phase::kResolve: {
      const std::string waiting =
          core_.options().param_resolver->DescribeWaiting(*args_.request);
      return waiting.empty() ? "before it began" : waiting;
    }
    case Phase::kDependencies:
      return absl::StrCat("dependencies: ", DescribeNotLaunched());
    case Phase::kRun:
      break;
  }
  return absl::StrCat("run phase: ", DescribeAbsent());
}

std::string MemberOp::DescribeNotLaunched() const {
  std::vector<InstanceId> awaited;
  for (const InstanceId& id :
       settled_->params->instance->impl_details.dependencies) {
    if (core_.executions().HasLaunched(id, execution_->number)) continue;
    awaited.push_back(id);
  }
  if (awaited.empty()) return "just launched";
  return absl::StrCat(ShortList(awaited.size(),
                                [&](size_t i) {
                                  return absl::StrCat(
                                      "group ", awaited[i].group_key,
                                      ", instance ", awaited[i].instance_key);
                                }),
                      " had not been launched");
}

std::string MemberOp::DescribeAbsent() const {
  const CollectiveParams& params = *context_.params;
  const std::vector<std::string> joined =
      core_.executions().JoinedNames(*execution_);
  const absl::flat_hash_set<std::string> present(joined.begin(), joined.end());
  std::vector<std::string> absent;
  for (int rank = 0; rank < params.group->size(); ++rank) {
    const std::string name = params.group->members[rank].device.name.ToString();
    if (!params.task->is_local[rank] || present.contains(name)) continue;
    absent.push_back(absl::StrCat("rank ", rank, " (", name, ")"));
  }
  const std::string awaited =
      executor_->peers().DescribeWaiting(*params.group, context_.exec_key);
  if (absent.empty()) {
    return absl::StrCat("all members of this process had arrived",
                        awaited.empty() ? "" : ", who wait for ", awaited);
  }
  return absl::StrCat(
      ShortList(absent.size(), [&](size_t i) { return absent[i]; }),
      " had not arrived", awaited.empty() ? "" : "; the others wait for ",
      awaited);
}

// Returns true if the instance was settled for this member, in a group that
// still lives.
bool MemberOp::IsSettled() const {
  return settled_ != nullptr && !settled_->group_end->cancelled();
}

void MemberOp::Resolve() {
  absl::Status status = Validate(*args_.request);
  if (!status.ok()) return Finish(std::move(status));
  core_.options().param_resolver->CompleteParamsAsync(
      args_.device->attributes(), args_.request,
      {.step_id = executor_->step_id(), .execution = execution_->number},
      std::shared_ptr<Cancellation>(execution_, &execution_->cancellation),
      [self = shared_from_this()](auto params) {
        self->OnResolved(std::move(params));
      });
}

void MemberOp::OnResolved(
    absl::StatusOr<std::shared_ptr<const CollectiveParams>> params) {
  if (!params.ok()) return Finish(params.status());
  absl::Status status = Settle(*std::move(params));
  if (!status.ok()) return Finish(std::move(status));
  Prepare();
}

absl::Status MemberOp::Settle(std::shared_ptr<const CollectiveParams> params) {
  ASSIGN_OR_RETURN(auto own, ParamsOfCall(std::move(params), *args_.request));
  RETURN_IF_ERROR(MakeSettled(std::move(own)));
  core_.WatchGroup(*settled_->params->group, executor_);
  absl::Status status =
      core_.executions().Settle(args_.device, *execution_, settled_);
  if (absl::IsFailedPrecondition(status)) {
    // Ends the group: others may wait in an execution of another number.
    core_.options().param_resolver->EndGroup(args_.request->group_key, status);
  }
  return status;
}

// Uses the rows of this call for this call alone, if they differ from the
// settled ones.
absl::Status MemberOp::TakeOwnRows() {
  if (GivenRows(*args_.request).empty()) return absl::OkStatus();
  RETURN_IF_ERROR(Validate(*args_.request));
  ASSIGN_OR_RETURN(auto params, ParamsOfCall(settled_->params, *args_.request));
  if (params == settled_->params) return absl::OkStatus();
  return MakeSettled(std::move(params));
}

absl::Status MemberOp::MakeSettled(
    std::shared_ptr<const CollectiveParams> params) {
  ASSIGN_OR_RETURN(const auto factory,
                   CollectiveRegistry::Global().Find(
                       params->instance->impl_details.implementation));
  const ImplementationTraits& traits = factory->traits();
  RETURN_IF_ERROR(CheckMemory(traits, *params, *args_.device));
  auto settled = std::make_shared<SettledFacts>(std::move(params));
  settled->request = args_.request;
  settled->implementation = factory->Create();
  settled->shares_output = traits.shares_output;
  settled->takes_segments = traits.takes_segments;
  settled->has_dependencies =
      !settled->params->instance->impl_details.dependencies.empty();
  settled_ = std::move(settled);
  return absl::OkStatus();
}

void MemberOp::Prepare() {
  phase_.store(Phase::kDependencies, std::memory_order_release);
  absl::Status status = PrepareContext();
  if (!status.ok()) return Finish(std::move(status));
  if (is_preparation_) {
    prepared_ = PreparedOp::Create(executor_, settled_, context_);
    return Finish(absl::OkStatus());
  }
  if (!settled_->has_dependencies) return Run();
  executor_->WaitForDependencies(
      context_, [self = shared_from_this()](absl::Status ready) {
        if (!ready.ok()) return self->Finish(std::move(ready));
        self->Run();
      });
}

absl::Status MemberOp::PrepareContext() {
  context_.params = settled_->params.get();
  context_.executor = executor_.get();
  context_.device = args_.device;
  context_.execution = execution_.get();
  context_.exec_key = {settled_->generation, executor_->step_id(),
                       execution_->id.group_key, execution_->id.instance_key,
                       execution_->number};
  RETURN_IF_ERROR(core_.StatusOf(*settled_, context_));
  RETURN_IF_ERROR(PrepareMemberBuffers(*settled_, &args_, &context_));
  return settled_->implementation->InitializeCollectiveContext(&context_);
}

void MemberOp::Run() {
  phase_.store(Phase::kRun, std::memory_order_release);
  self_ = shared_from_this();
  IsPacked(context_, *settled_) ? RunPacked() : RunImplementation();
}

void MemberOp::RunImplementation() {
  settled_->implementation->Run(
      context_, [this](absl::Status status) { Finish(std::move(status)); });
}

void MemberOp::RunPacked() {
  CopySegments(&Pack, [op = this](absl::Status status) {
    if (!status.ok()) return op->Finish(std::move(status));
    op->settled_->implementation->Run(op->context_, [op](absl::Status ended) {
      op->OnPackedResult(std::move(ended));
    });
  });
}

void MemberOp::OnPackedResult(absl::Status status) {
  if (!status.ok()) return Finish(std::move(status));
  CopySegments(&Unpack, [op = this](absl::Status ended) {
    op->Finish(std::move(ended));
  });
}

void MemberOp::CopySegments(SegmentCopies copies, StatusCallback done) {
  // Longer copies go to the work queue, which needs 20 us to wake a thread: the
  // time of so many bytes at 10 GB/s (2 cores, Zen 4, 2026-11).
  constexpr int64_t kInlineBytes = int64_t{256} << 10;
  Work copy = [this, copies, done = std::move(done)]() mutable {
    CopyOnDevice(
        *args_.device, *executor_->environment().clock,
        [this, copies](CopyPiece piece) {
          return copies(*context_.segments, context_.output, piece);
        },
        std::move(done));
  };
  const bool is_long = args_.device->has_host_memory() &&
                       context_.segments->num_bytes() > kInlineBytes;
  if (!is_long) return std::move(copy)();
  executor_->environment().queue->Schedule(std::move(copy));
}

void MemberOp::Finish(absl::Status status) {
  const std::shared_ptr<MemberOp> self = std::move(self_);
  finished_.store(true, std::memory_order_release);
  if (alarm_ != 0) executor_->environment().clock->Cancel(alarm_);
  if (watch_ != 0) args_.cancellation->Unwatch(watch_);
  if (!status.ok()) {
    core_.FailExecution(*execution_, std::move(status));
    status = execution_->cancellation.status();
  }
  if (status.ok() && !is_preparation_) {
    core_.ShowObserver(context_, *settled_->request);
  }
  context_.input = Tensor();
  context_.output = Tensor();
  context_.segments = nullptr;
  ClearArgs();
  if (status.ok() && is_preparation_) {
    core_.Leave(*execution_, {.num_unlaunched = 1});
    return EndPreparation();
  }
  core_.EndPart({execution_.get(), context_.launched}, std::move(status),
                std::move(done_));
}

// Runs `done_`, on the work queue after kMaxNested nested calls. A caller may
// at once prepare the next collective, which is ready at once too, and so on:
// such a chain must not end the stack.
void MemberOp::EndPreparation() {
  constexpr int kMaxNested = 16;
  thread_local int num_nested = 0;
  if (num_nested >= kMaxNested) {
    executor_->environment().queue->Schedule(
        [self = shared_from_this()] { self->EndPreparation(); });
    return;
  }
  ++num_nested;
  std::move(done_)(absl::OkStatus());
  --num_nested;
}

// Ends a call that has joined nothing.
void MemberOp::Refuse(absl::Status status) {
  ClearArgs();
  FinishOnTrampoline(std::move(done_), std::move(status));
}

// Clears the arguments that the call did not reach.
void MemberOp::ClearArgs() {
  args_.input = Tensor();
  args_.segments = nullptr;
}

}  // namespace tutti
