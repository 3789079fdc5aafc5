#include "framework/executor/prepared_op.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/trampoline.h"
#include "framework/executor/member_buffers.h"

namespace tutti {

std::shared_ptr<PreparedCollective> PreparedOp::Create(
    std::shared_ptr<CollectiveExecutor> executor,
    std::shared_ptr<const SettledFacts> settled,
    const CollectiveContext& context) {
  return std::shared_ptr<PreparedOp>(
      new PreparedOp(std::move(executor), std::move(settled), context),
      [](PreparedOp* op) { op->LetGo(); });
}

PreparedOp::PreparedOp(std::shared_ptr<CollectiveExecutor> executor,
                       std::shared_ptr<const SettledFacts> settled,
                       const CollectiveContext& context)
    : executor_(std::move(executor)),
      settled_(std::move(settled)),
      member_(core_.executions().Hold(
          context.device,
          {settled_->request->group_key, settled_->request->instance_key})) {
  context_.params = context.params;
  context_.executor = context.executor;
  context_.device = context.device;
  context_.input = context.input;
  context_.output = context.output;
  if (context.late_output != nullptr) context_.late_output = &context_.output;
  context_.exec_key = context.exec_key;
  context_.implementation_state = context.implementation_state;
  context_.segments = context.segments;
  context_.store_hint = context.store_hint;
  const bool is_packed = IsPacked(context_, *settled_);
  if (is_packed) {  // Calls make their own.
    context_.input = Tensor();
    context_.output = Tensor();
  }
  always_calls_ = is_packed || settled_->has_dependencies;
}

PreparedOp::~PreparedOp() { core_.executions().Release(member_); }

void PreparedOp::Start(StatusCallback done) {
  if (!Claim(&done)) return;
  if (NeedsCall()) return Call({}, std::move(done));
  done_ = std::move(done);
  absl::Status status = Join();
  if (execution_ == nullptr) return Refuse(std::move(status));
  if (!status.ok()) return Finish(std::move(status));
  status = core_.StatusOf(*settled_, context_);
  if (!status.ok()) return Finish(std::move(status));
  settled_->implementation->Run(
      context_, [this](absl::Status status) { Finish(std::move(status)); });
}

void PreparedOp::Start(Limits limits, StatusCallback done) {
  if (Claim(&done)) Call(std::move(limits), std::move(done));
}

void PreparedOp::LetGo() {
  const int before = state_.fetch_or(kLetGo, std::memory_order_acq_rel);
  if ((before & kRunning) == 0) delete this;
}

// Returns false, after running `done` with an error, if a start runs already.
bool PreparedOp::Claim(StatusCallback* done) {
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

// Ends the start; may delete this object.
void PreparedOp::Release() {
  const int before = state_.fetch_and(~kRunning, std::memory_order_acq_rel);
  if ((before & kLetGo) != 0) delete this;
}

bool PreparedOp::NeedsCall() const {
  return always_calls_ || core_.aborted().cancelled() ||
         settled_->group_end->cancelled();
}

void PreparedOp::Call(Limits limits, StatusCallback done) {
  const bool is_late = context_.late_output != nullptr;
  if (is_late) context_.output = Tensor();  // The call makes a new one.
  executor_->ExecuteAsync(
      {.device = context_.device,
       .request = settled_->request,
       .input = context_.input,
       .output = context_.segments == nullptr ? &context_.output : nullptr,
       .allow_shared_output = is_late,
       .segments = context_.segments,
       .store_hint = context_.store_hint,
       .deadline = limits.deadline,
       .cancellation = std::move(limits.cancellation)},
      [this, done = std::move(done)](absl::Status status) mutable {
        Release();
        std::move(done)(std::move(status));
      });
}

absl::Status PreparedOp::Join() {
  absl::Status status;
  execution_ = core_.executions().JoinNext(
      member_, [this] { return executor_; }, &status);
  if (execution_ == nullptr) return status;
  context_.execution = execution_;
  context_.exec_key.execution = execution_->number;
  context_.launched.store(false, std::memory_order_relaxed);
  return status;
}

void PreparedOp::Finish(absl::Status status) {
  ExecutorCore& core = core_;  // Kept by the execution.
  Execution& execution = *execution_;
  if (!status.ok()) {
    core.FailExecution(execution, std::move(status));
    status = execution.cancellation.status();
  }
  if (status.ok()) core.ShowObserver(context_, *settled_->request);
  const bool has_launched = context_.launched;
  StatusCallback done = std::move(done_);
  Release();
  core.EndPart({&execution, has_launched}, std::move(status), std::move(done));
}

// Ends a start that has joined nothing.
void PreparedOp::Refuse(absl::Status status) {
  StatusCallback done = std::move(done_);
  Release();
  FinishOnTrampoline(std::move(done), std::move(status));
}

}  // namespace tutti
