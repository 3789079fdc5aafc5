#include "framework/executor/call.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/block_cache.h"
#include "framework/base/callbacks.h"
#include "framework/base/status_macros.h"
#include "framework/collective/member_params.h"
#include "framework/collective/op_fields.h"
#include "framework/collective/request_fields.h"
#include "framework/executor/call_args.h"
#include "framework/executor/point_to_point.h"
#include "framework/peer/message_key.h"
#include "framework/tensor/device_copies.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

void DropBuffers(CollectiveArgs& args) {
  args.input = Tensor();
  args.segments = nullptr;
}

}  // namespace

// Holds a call that is prepared.
class Call::Prepared final : public PreparedCollective {
 public:
  explicit Prepared(Call& call) : call_(call) {}
  ~Prepared() override {
    const int before = call_.state_.fetch_or(kReleased);
    if ((before & kRunning) == 0) delete &call_;
  }

  void Start(StatusCallback done) override { call_.Start(std::move(done)); }
  void Start(Limits limits, StatusCallback done) override {
    if (call_.Claim(&done)) call_.StartCall(std::move(limits), std::move(done));
  }
  const CollectiveParams& params() const override {
    return *call_.settled_->params;
  }
  const Tensor& output() const override { return call_.context_.output; }

 private:
  Call& call_;
};

void* Call::operator new(size_t /*size*/) {
  return CachedAllocator<Call>().allocate(1);
}

void Call::operator delete(void* block) {
  CachedAllocator<Call>().deallocate(static_cast<Call*>(block), 1);
}

void Call::Execute(CollectiveExecutor& executor, CollectiveArgs& args,
                   StatusCallback&& done) {
  Call* const call = new Call(executor, args.device, Kind::kExecution);
  call->done_ = std::move(done);
  if (call->done_ == nullptr) call->done_ = [](absl::Status) {};
  call->Begin(args);
}

void Call::Prepare(CollectiveExecutor& executor, CollectiveArgs& args,
                   CollectiveExecutor::PrepareCallback done) {
  Call* const call = new Call(executor, args.device, Kind::kPreparation);
  if (done == nullptr) done = [](auto) {};
  call->done_ = [call, done = std::move(done)](absl::Status status) mutable {
    if (!status.ok()) return std::move(done)(std::move(status));
    std::move(done)(std::move(call->prepared_));
  };
  call->Begin(args);
}

Call::Call(CollectiveExecutor& executor, Device* device, Kind kind)
    : kind_(kind) {
  context_.executor = &executor;
  context_.device = device;
}

Call::~Call() {
  if (watch_ != nullptr) StopWatching();
  if (member_ != nullptr) core().executions().Release(*member_);
}

void Call::Begin(CollectiveArgs& args,
                 std::shared_ptr<const CollectiveParams> message,
                 ExecutionTable::Joined* joined_before) {
  ExecutionTable::Joined joined =
      joined_before == nullptr ? Join(args) : std::move(*joined_before);
  if (joined.execution == nullptr) {  // No other member knows of the call yet.
    const absl::Status aborted = core().aborted().status();
    DropBuffers(args);
    return Refuse(aborted.ok() ? std::move(joined.status) : aborted);
  }
  context_.execution = joined.execution;
  settled_ = joined.settled;
  if (message != nullptr) {  // First: from now on, an end reaches the peer.
    const auto group = message->group;
    joined.status.Update(Settle(std::move(message), args));
    if (!joined.status.ok()) {
      if (joined.announcement == nullptr) {
        return FinishEarly(args, std::move(joined.status));
      }
      context_.executor->peers().CancelExecution(
          *group, joined.announcement->key.exec, joined.status);
    }
  }
  if (args.cancellation != nullptr || args.deadline != absl::InfiniteFuture()) {
    WatchLimits(args);
  }
  if (core().aborted().cancelled()) {
    core().FailExecution(*context_.execution, core().aborted().status());
  }
  if (joined.announcement == nullptr) {
    return GoOn(args, std::move(joined.status));
  }
  // Request the message only after the answer. An end of the message is one.
  joined.announcement->Await([this, args = std::move(args),
                              place = *args.output,
                              status = std::move(joined.status)]() mutable {
    args.output = &place;
    GoOn(args, std::move(status));
  });
}

// Goes on with a call that has joined and has its limits.
void Call::GoOn(CollectiveArgs& args, absl::Status status) {
  Execution& execution = *context_.execution;
  if (execution.cancellation.cancelled()) {
    return FinishEarly(args, execution.cancellation.status());
  }
  if (any_receive_ != nullptr) return AwaitSender();
  if (status.ok()) {
    status = CheckTogether(args, kind_ == Kind::kPreparation);
  }
  if (!status.ok()) return FinishEarly(args, std::move(status));
  if (kind_ == Kind::kMessage) return Check(args);
  if (settled_ == nullptr || settled_->group_end->cancelled()) {
    return Resolve(std::move(args));
  }
  if (args.request != settled_->request) {
    status = CheckSameRequest(*settled_->request, *args.request);
    if (status.ok()) status = TakeOwnRows(args);
    if (!status.ok()) return FinishEarly(args, std::move(status));
  }
  Check(args);
}

// Checks who calls what, and joins. If that fails, nobody waits for the call.
ExecutionTable::Joined Call::Join(const CollectiveArgs& args) {
  if (args.device == nullptr) {
    return {.status = absl::InvalidArgumentError(
                "a collective was called without a device")};
  }
  if (args.request == nullptr) {
    return {.status = absl::InvalidArgumentError(
                absl::StrCat(args.device->full_name(),
                             " called a collective without a request"))};
  }
  const auto owner = [this] { return context_.executor->shared_from_this(); };
  ExecutionTable::Joined joined =
      kind_ == Kind::kPreparation
          ? table().JoinPreparation(args.device, *args.request, owner)
          : table().Join(args.device, *args.request, args.execution, owner);
  if (joined.forgotten != nullptr) {
    for (const ExecKey& key : joined.forgotten->keys) {
      context_.executor->peers().ForgetExecution(key);
    }
  }
  return joined;
}

void Call::Resolve(CollectiveArgs args) {
  absl::Status status = Validate(*args.request);
  if (!status.ok()) return FinishEarly(args, std::move(status));
  Execution& execution = *context_.execution;
  const Device& device = *args.device;
  const std::shared_ptr<const CollectiveRequest> request = args.request;
  core().options().param_resolver->CompleteInstanceAsync(
      device.attributes(), request,
      {.step_id = context_.executor->step_id(), .execution = execution.number},
      std::shared_ptr<Cancellation>(ExecutionTable::Share(execution),
                                    &execution.cancellation),
      [self = std::unique_ptr<Call>(this),
       args = std::move(args)](auto params) mutable {
        Call& call = *self.release();
        absl::Status settled = params.status();
        if (settled.ok()) settled = call.Settle(*std::move(params), args);
        if (!settled.ok()) return call.FinishEarly(args, std::move(settled));
        call.Check(args);
      });
}

absl::Status Call::Settle(std::shared_ptr<const CollectiveParams> params,
                          const CollectiveArgs& args) {
  ASSIGN_OR_RETURN(auto own, ParamsOfCall(std::move(params), *args.request));
  RETURN_IF_ERROR(MakeSettled(std::move(own), args));
  core().WatchGroup(*settled_->params->group,
                    context_.executor->weak_from_this());
  const absl::Status status =
      table().Settle(args.device, *context_.execution, own_settled_);
  if (absl::IsFailedPrecondition(status) && !settled_->group_end->cancelled()) {
    // Ends the group: others may wait in an execution of another number. A
    // message may name an ended generation, whose successor lives on.
    core().options().param_resolver->EndGroup(args.request->group_key, status);
  }
  return status;
}

// Uses the rows of this call for this call alone, if they differ from the
// settled ones.
absl::Status Call::TakeOwnRows(const CollectiveArgs& args) {
  if (!GivesRows(args.request->op)) return absl::OkStatus();
  RETURN_IF_ERROR(Validate(*args.request));
  ASSIGN_OR_RETURN(auto params, ParamsOfCall(settled_->params, *args.request));
  if (params == settled_->params) return absl::OkStatus();
  return MakeSettled(std::move(params), args);
}

absl::Status Call::MakeSettled(std::shared_ptr<const CollectiveParams> params,
                               const CollectiveArgs& args) {
  ASSIGN_OR_RETURN(const auto factory,
                   CollectiveRegistry::Global().Find(
                       params->instance->impl_details.implementation));
  const ImplementationTraits& traits = factory->traits();
  RETURN_IF_ERROR(CheckMemory(traits, *params, *args.device));
  auto settled = std::make_shared<SettledFacts>(std::move(params));
  settled->request = args.request;
  settled->implementation = factory->Create();
  settled->shares_output = traits.shares_output;
  settled->takes_segments = traits.takes_segments;
  settled->has_dependencies =
      !settled->params->instance->impl_details.dependencies.empty();
  own_settled_ = std::move(settled);
  settled_ = own_settled_.get();
  return absl::OkStatus();
}

void Call::Check(CollectiveArgs& args) {
  phase_.store(Phase::kDependencies, std::memory_order_release);
  absl::Status status = PrepareContext(args);
  if (!status.ok() || kind_ == Kind::kPreparation) {
    return FinishEarly(args, std::move(status));
  }
  settled_->has_dependencies ? WaitForDependencies() : Run();
}

absl::Status Call::PrepareContext(CollectiveArgs& args) {
  const Execution& execution = *context_.execution;
  context_.params = settled_->params.get();
  context_.exec_key = {settled_->generation, context_.executor->step_id(),
                       execution.id.group_key, execution.id.instance_key,
                       execution.number};
  RETURN_IF_ERROR(core().StatusOf(*settled_, context_));
  RETURN_IF_ERROR(PrepareMemberBuffers(*settled_, &args, &context_));
  if (args.input_factor.has_value()) {
    ASSIGN_OR_RETURN(factor_, Premultiplication::Create(*args.input_factor,
                                                        *settled_, &context_));
  }
  return settled_->implementation->InitializeCollectiveContext(&context_);
}

void Call::WaitForDependencies() {
  context_.executor->WaitForDependencies(
      context_,
      [self = std::unique_ptr<Call>(this)](absl::Status ready) mutable {
        Call& call = *self.release();
        ready.ok() ? call.Run() : call.Finish(std::move(ready));
      });
}

void Call::AwaitSender() {
  const absl::Status status = core().StatusOf(*settled_, context_);
  if (!status.ok()) return Finish(status);
  any_receive_->execution = ExecutionTable::Share(*context_.execution);
  any_receive_->end_wait = [this](absl::Status end) { Finish(std::move(end)); };
  core().any_receives().Add(std::move(any_receive_));
}

void Call::Run() {
  phase_.store(Phase::kRun, std::memory_order_release);
  if (IsPacked(context_, *settled_)) return RunPacked();
  if (factor_ != nullptr) return RunPremultiplied();
  settled_->implementation->Run(
      context_, [this](absl::Status status) { Finish(std::move(status)); });
}

void Call::RunPremultiplied() {
  const int64_t num_bytes =
      context_.segments != nullptr
          ? context_.segments->num_bytes()
          : static_cast<int64_t>(context_.input.size_bytes());
  RunOnHost(num_bytes, [this] {
    factor_->Run(context_);
    settled_->implementation->Run(
        context_, [this](absl::Status status) { Finish(std::move(status)); });
  });
}

void Call::RunPacked() {
  CopySegments(&Pack, [this](absl::Status packed) {
    if (!packed.ok()) return Finish(std::move(packed));
    if (factor_ != nullptr) factor_->Run(context_);
    settled_->implementation->Run(context_, [this](absl::Status reduced) {
      if (!reduced.ok()) return Finish(std::move(reduced));
      CopySegments(&Unpack, [this](absl::Status unpacked) {
        Finish(std::move(unpacked));
      });
    });
  });
}

void Call::CopySegments(SegmentCopies copies, StatusCallback done) {
  Work copy = [this, copies, done = std::move(done)]() mutable {
    CopyOnDevice(
        *context_.device, *context_.executor->environment().clock,
        [this, copies](CopyPiece piece) {
          return copies(*context_.segments, context_.output, piece);
        },
        std::move(done));
  };
  RunOnHost(
      context_.device->has_host_memory() ? context_.segments->num_bytes() : 0,
      std::move(copy));
}

// Runs `work`, which writes so many bytes of host memory.
void Call::RunOnHost(int64_t num_bytes, Work work) {
  // Longer work goes to the work queue, which needs 20 us to wake a thread: the
  // time of so many bytes at 10 GB/s (2 cores, Zen 4, 2026-11).
  constexpr int64_t kInlineBytes = int64_t{256} << 10;
  if (num_bytes <= kInlineBytes) return std::move(work)();
  context_.executor->environment().queue->Schedule(std::move(work));
}

void Call::Finish(absl::Status status) {
  if (watch_ != nullptr) StopWatching();
  ExecutorCore& core = this->core();
  Execution& execution = *context_.execution;
  if (!status.ok()) {
    core.FailExecution(execution, std::move(status));
    status = execution.cancellation.status();
  } else if (kind_ == Kind::kPreparation && member_ == nullptr) {
    return FinishPreparation();
  } else if (kind_ != Kind::kMessage && core.options().observer != nullptr) {
    return core.ShowObserver(context_, *settled_->request,
                             [this] { End(absl::OkStatus()); });
  }
  End(std::move(status));
}

// Leaves the execution and runs `done`.
void Call::End(absl::Status status) {
  ExecutorCore& core = this->core();  // Kept by the execution.
  const ExecutorCore::Part part{context_.execution, context_.launched};
  StatusCallback done = std::move(done_);
  Release();
  core.EndPart(part, std::move(status), std::move(done));
}

void Call::FinishEarly(CollectiveArgs& args, absl::Status status) {
  DropBuffers(args);
  Finish(std::move(status));
}

// Ends a call that has joined nothing.
void Call::Refuse(absl::Status status) {
  StatusCallback done = std::move(done_);
  Release();
  FinishOnTrampoline(std::move(done), std::move(status));
}

// Deletes the call, unless it can be started again.
void Call::Release() {
  if (member_ == nullptr ||
      (state_.fetch_and(~kRunning, std::memory_order_acq_rel) & kReleased)) {
    delete this;
  }
}

// Becomes what Start() runs.
void Call::FinishPreparation() {
  always_calls_ = settled_->has_dependencies;
  if (IsPacked(context_, *settled_)) {  // Calls make their own.
    context_.input = Tensor();
    context_.output = Tensor();
    always_calls_ = true;
  }
  if (context_.late_output != nullptr) context_.late_output = &context_.output;
  const InstanceId id = context_.execution->id;
  own_settled_ = settled_->shared_from_this();
  kept_executor_ = context_.executor->shared_from_this();
  member_ = &core().executions().Hold(context_.device, id);
  core().Leave(*context_.execution, {.num_unlaunched = 1});
  prepared_ = std::make_shared<Prepared>(*this);
  EndPreparation();
}

// Runs `done_`, on the work queue after kMaxNested nested calls. A caller may
// at once prepare the next collective, which is ready at once too, and so on:
// such a chain must not end the stack.
void Call::EndPreparation() {
  constexpr int kMaxNested = 16;
  thread_local int num_nested = 0;
  if (num_nested >= kMaxNested) {
    return kept_executor_->environment().queue->Schedule(
        [this, prepared = std::move(prepared_)]() mutable {
          prepared_ = std::move(prepared);
          EndPreparation();
        });
  }
  ++num_nested;
  StatusCallback done = std::move(done_);
  std::move(done)(absl::OkStatus());
  --num_nested;
}

void Call::Start(StatusCallback done) {
  if (!Claim(&done)) return;
  if (always_calls_ || core().aborted().cancelled() ||
      settled_->group_end->cancelled()) {
    return StartCall({}, std::move(done));
  }
  done_ = std::move(done);
  absl::Status status;
  Execution* const execution = core().executions().JoinNext(
      *member_, [this] { return kept_executor_; }, &status);
  if (execution == nullptr) return Refuse(std::move(status));
  context_.execution = execution;
  context_.exec_key.execution = execution->number;
  context_.launched.store(false, std::memory_order_relaxed);
  if (status.ok()) status = core().StatusOf(*settled_, context_);
  if (!status.ok()) return Finish(std::move(status));
  Run();
}

// Returns false, after running `done` with an error, if a start runs already.
bool Call::Claim(StatusCallback* done) {
  if (*done == nullptr) *done = [](absl::Status) {};
  const int before = state_.fetch_or(kRunning, std::memory_order_acquire);
  if ((before & kRunning) == 0) return true;
  const CollectiveRequest& request = *settled_->request;
  std::move (*done)(absl::FailedPreconditionError(absl::StrCat(
      settled_->params->group->members[context_.rank()].device.name.ToString(),
      " started ", Name(TypeOf(request.op)), " of group ", request.group_key,
      ", instance ", request.instance_key,
      ", again before its last start had ended")));
  return false;
}

void Call::StartCall(PreparedCollective::Limits limits, StatusCallback done) {
  const bool is_late = context_.late_output != nullptr;
  if (is_late) context_.output = Tensor();  // The call makes a new one.
  const bool is_multiplied = factor_ != nullptr;
  const bool has_segments = context_.segments != nullptr;
  context_.executor->ExecuteAsync(
      {.device = context_.device,
       .request = settled_->request,
       .input = is_multiplied ? factor_->input() : context_.input,
       .output = has_segments ? nullptr : &context_.output,
       .allow_shared_output = is_late,
       .segments = is_multiplied ? factor_->segments() : context_.segments,
       .input_factor =
           is_multiplied ? std::optional(factor_->factor()) : std::nullopt,
       .store_hint = context_.store_hint,
       .deadline = limits.deadline,
       .cancellation = std::move(limits.cancellation)},
      [this, done = std::move(done)](absl::Status status) mutable {
        Release();
        std::move(done)(std::move(status));
      });
}

}  // namespace tutti
