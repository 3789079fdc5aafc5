#include <memory>
#include <utility>

#include "framework/executor/call.h"
#include "framework/executor/executor_core.h"
#include "tutti/executor.h"

namespace tutti {

CollectiveExecutor::CollectiveExecutor(std::unique_ptr<ExecutorCore> core)
    : core_(std::move(core)) {}

CollectiveExecutor::~CollectiveExecutor() = default;

void CollectiveExecutor::ExecuteAsync(CollectiveArgs args,
                                      StatusCallback done) {
  Call::Execute(*this, args, std::move(done));
}

void CollectiveExecutor::Prepare(CollectiveArgs args, PrepareCallback done) {
  Call::Prepare(*this, args, std::move(done));
}

void CollectiveExecutor::StartAbort(absl::Status reason) {
  core_->StartAbort(std::move(reason));
}

absl::Status CollectiveExecutor::status() const {
  return core_->aborted().status();
}

int64_t CollectiveExecutor::step_id() const { return core_->options().step_id; }

PeerAccessInterface& CollectiveExecutor::peers() {
  return *core_->options().peers;
}

const Environment& CollectiveExecutor::environment() const {
  return core_->options().environment;
}

int64_t CollectiveExecutor::past_caches_from_bytes() const {
  return core_->options().past_caches_from_bytes;
}

void CollectiveExecutor::WaitForDependencies(const CollectiveContext& context,
                                             StatusCallback ready) {
  core_->dependencies().WaitFor(
      context.params->instance->impl_details.dependencies,
      context.exec_key.execution, context.execution->cancellation,
      std::move(ready));
}

void CollectiveExecutor::Launched(const CollectiveContext& context) {
  if (context.launched.load(std::memory_order_relaxed) ||
      context.launched.exchange(true, std::memory_order_relaxed)) {
    return;
  }
  Execution& execution = *context.execution;
  execution.num_launched.fetch_add(1, std::memory_order_seq_cst);
  core_->dependencies().Launched(execution.id);
}

void CollectiveExecutor::LaunchedTogether(
    absl::Span<const CollectiveContext* const> contexts) {
  size_t num_launched = 0;
  for (const CollectiveContext* context : contexts) {
    if (context->launched.load(std::memory_order_relaxed)) continue;
    context->launched.store(true, std::memory_order_relaxed);
    ++num_launched;
  }
  if (num_launched == 0) return;
  Execution& execution = *contexts[0]->execution;
  execution.num_launched.fetch_add(num_launched, std::memory_order_seq_cst);
  core_->dependencies().Launched(execution.id);
}

void CollectiveExecutor::FailExecution(Execution& execution,
                                       absl::Status status) {
  core_->FailExecution(execution, std::move(status));
}

}  // namespace tutti
