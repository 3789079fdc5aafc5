#include "framework/prepared_op.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/run_in_turn.h"

namespace tutti {

PreparedOp::PreparedOp(std::shared_ptr<CollectiveExecutor> executor,
                       std::shared_ptr<const ExecutionTable::Settled> settled,
                       const CollectiveContext& context)
    : executor_(std::move(executor)),
      settled_(std::move(settled)),
      group_(*settled_->params->group->cancellation),
      member_(executor_->executions_.Hold(
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
  const bool is_packed =
      context_.segments != nullptr && !settled_->takes_segments;
  if (is_packed) {  // Calls make their own.
    context_.input = Tensor();
    context_.output = Tensor();
  }
  always_calls_ =
      is_packed ||
      !settled_->params->instance->impl_details.dependencies.empty();
}

PreparedOp::~PreparedOp() { executor_->executions_.Release(member_); }

void PreparedOp::Start(StatusCallback done) {
  if (!Claim(&done)) return;
  if (NeedsCall()) return Call({}, std::move(done));
  const std::shared_ptr<PreparedOp> self = shared_from_this();
  self_ = self;  // `done` may let go of it before Run() returns.
  done_ = std::move(done);
  absl::Status status = Join();
  if (execution_ == nullptr) return End(std::move(status));
  if (!status.ok()) return Finish(std::move(status));
  // The table has the execution: whoever ends step, group or execution from now
  // on finds it.
  if (executor_->aborted_.cancelled()) return Finish(executor_->status());
  if (group_.cancelled()) return Finish(group_.status());
  if (execution_->cancellation.cancelled()) {
    return Finish(execution_->cancellation.status());
  }
  settled_->implementation->Run(
      context_, [this](absl::Status status) { Finish(std::move(status)); });
}

void PreparedOp::Start(Limits limits, StatusCallback done) {
  if (Claim(&done)) Call(std::move(limits), std::move(done));
}

// False, and `done` has run, if it runs already.
bool PreparedOp::Claim(StatusCallback* done) {
  if (*done == nullptr) *done = [](absl::Status) {};
  if (!is_running_.exchange(true, std::memory_order_acquire)) return true;
  const CollectiveRequest& request = *settled_->request;
  std::move (*done)(absl::FailedPreconditionError(absl::StrCat(
      settled_->params->group->members[context_.rank()].device.name.ToString(),
      " started ", Name(TypeOf(request.op)), " of group ", request.group_key,
      ", instance ", request.instance_key,
      ", again before its last start had ended")));
  return false;
}

bool PreparedOp::NeedsCall() const {
  return always_calls_ || executor_->aborted_.cancelled() || group_.cancelled();
}

void PreparedOp::Call(Limits limits, StatusCallback done) {
  const bool is_late = context_.late_output != nullptr;
  if (is_late) context_.output = Tensor();  // To be made anew.
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
      [self = shared_from_this(),
       done = std::move(done)](absl::Status status) mutable {
        self->is_running_.store(false, std::memory_order_release);
        std::move(done)(std::move(status));
      });
}

absl::Status PreparedOp::Join() {
  absl::Status status;
  execution_ = executor_->executions_.JoinNext(member_, &status);
  if (execution_ == nullptr) return status;
  context_.execution = execution_.get();
  context_.exec_key.execution = execution_->number;
  context_.launched.store(false, std::memory_order_relaxed);
  return status;
}

void PreparedOp::Finish(absl::Status status) {
  {
    const std::shared_ptr<Execution> execution = std::move(execution_);
    if (!status.ok()) {
      executor_->FailExecution(*execution, std::move(status));
      status = execution->cancellation.status();
    }
    executor_->MarkLaunched(context_, *execution);
    executor_->LeaveExecution(*execution);
  }
  if (status.ok()) executor_->ShowObserver(context_, *settled_->request);
  End(std::move(status));
}

void PreparedOp::End(absl::Status status) {
  const std::shared_ptr<PreparedOp> self = std::move(self_);
  StatusCallback done = std::move(done_);
  is_running_.store(false, std::memory_order_release);
  if (status.ok()) return std::move(done)(std::move(status));
  // A caller that starts again may find that one failed too.
  RunInTurn([done = std::move(done), status = std::move(status)]() mutable {
    std::move(done)(std::move(status));
  });
}

}  // namespace tutti
