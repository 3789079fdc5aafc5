#include "framework/executor/executor_core.h"

#include <memory>
#include <utility>

#include "framework/base/callbacks.h"
#include "framework/executor/call.h"
#include "tutti/executor.h"

namespace tutti {
namespace {

// Innermost JointEnd on this thread.
thread_local ExecutorCore::JointEnd* joint_end = nullptr;

}  // namespace

std::shared_ptr<CollectiveExecutor> MakeCollectiveExecutor(
    ExecutorOptions options) {
  const auto executor = std::make_shared<CollectiveExecutor>(
      std::make_unique<ExecutorCore>(std::move(options)));
  executor->peers().WatchEnds(
      [weak = executor->weak_from_this()](const ExecKey& exec,
                                          const absl::Status& reason) {
        const auto self = weak.lock();
        if (self != nullptr) self->core().OnEndedByPeer(exec, reason);
      });
  return executor;
}

ExecutorCore::ExecutorCore(ExecutorOptions options)
    : options_(std::move(options)),
      executions_(options_.step_id, options_.devices->devices().size(),
                  options_.max_entries,
                  [this](const Device* device) {
                    return options_.devices->Owns(device);
                  }),
      messages_(
          options_.step_id, options_.devices->devices().size(),
          options_.max_entries,
          [this](const Device* device) {
            return options_.devices->Owns(device);
          },
          kMessages),
      dependencies_([this](InstanceId id, uint64_t number) {
        return executions_.HasLaunched(id, number);
      }) {}

ExecutorCore::~ExecutorCore() {
  MutexLock lock(&mu_);
  for (const auto& [group, watch] : watched_groups_) group->Unwatch(watch);
}

void ExecutorCore::StartAbort(absl::Status reason) {
  aborted_.Cancel(std::move(reason));
  const absl::Status first = aborted_.status();
  // Aborts all transfers at once. Otherwise each execution would search all
  // waiting transfers for its own. Messages wait for nothing else, except for
  // receives from any member.
  options_.peers->StartAbort(first);
  any_receives_.EndStep(first);
  for (const auto& execution : executions_.Running()) {
    FailExecution(*execution, first);
  }
}

void ExecutorCore::ShowObserver(const CollectiveContext& context,
                                const CollectiveRequest& request, Work shown) {
  const Tensor none;
  const bool has_segments = context.segments != nullptr;
  options_.observer->Observe({.device = *context.device,
                              .request = request,
                              .step_id = context.exec_key.step,
                              .execution = context.exec_key.execution,
                              .output = has_segments ? none : context.result(),
                              .segments = context.segments.get()},
                             std::move(shown));
}

void ExecutorCore::FailExecution(Execution& execution, absl::Status status) {
  execution.cancellation.Cancel(std::move(status));
  CancelTransfers(execution);
  dependencies_.Launched(execution.id);  // Missing members need not launch.
}

void ExecutorCore::CancelTransfers(Execution& execution) {
  ExecutionTable& table = TableOf(execution.number);
  const auto key = table.BeginCancel(execution);
  if (!key.has_value()) return;
  const absl::Status reason = execution.cancellation.status();
  const bool has_group = key->generation != 0;
  if (has_group) {
    options_.peers->CancelExecution(ExecutionTable::GroupOf(execution), *key,
                                    reason);
  }
  // Members that come later join another generation. Both sides of a message
  // know its group.
  const bool goes_on =
      !has_group ||
      ExecutionTable::GroupOf(execution).cancellation->cancelled();
  if (goes_on && !IsMessage(*key)) {
    options_.param_resolver->GiveUp(
        execution.id, {.step_id = key->step, .execution = key->execution},
        reason);
  }
  const auto forgotten = table.EndCancel(execution);
  if (forgotten.has_value()) options_.peers->ForgetExecution(*forgotten);
}

void ExecutorCore::OnEndedByPeer(const ExecKey& exec,
                                 const absl::Status& reason) {
  const auto execution = TableOf(exec.execution).Find(exec);
  if (execution != nullptr) FailExecution(*execution, reason);
}

absl::Status ExecutorCore::StatusOf(const SettledFacts& settled,
                                    const CollectiveContext& context) const {
  if (aborted_.cancelled()) return aborted_.status();
  if (settled.group_end->cancelled()) return settled.group_end->status();
  const Cancellation& execution = context.execution->cancellation;
  if (execution.cancelled()) return execution.status();
  if (!settled.spans_tasks) return absl::OkStatus();
  return options_.peers->StatusOf(context.exec_key);
}

void ExecutorCore::WatchGroup(const CollGroupParams& group,
                              std::weak_ptr<CollectiveExecutor> executor) {
  {
    MutexLock lock(&mu_);
    if (!watched_groups_.try_emplace(group.cancellation).second) return;
  }
  const Cancellation::WatchId watch = group.cancellation->Watch(
      [this, weak = std::move(executor), end = group.cancellation.get(),
       key = group.key,
       generation = group.generation](const absl::Status& reason) {
        const auto owner = weak.lock();
        if (owner == nullptr) return;
        {
          MutexLock lock(&mu_);
          watched_groups_.erase(end);
        }
        for (ExecutionTable* const table : {&executions_, &messages_}) {
          for (const auto& execution : table->RunningIn(key, generation)) {
            FailExecution(*execution, reason);
          }
        }
        any_receives_.EndGroup(key, generation, reason);
      });
  MutexLock lock(&mu_);
  const auto found = watched_groups_.find(group.cancellation);
  if (found != watched_groups_.end()) found->second = watch;
}

ExecutorCore::JointEnd::JointEnd(Execution& execution)
    : execution_(execution), outer_(std::exchange(joint_end, this)) {}

ExecutorCore::JointEnd::~JointEnd() {
  joint_end = outer_;
  if (num_members_ == 0) return;
  const auto owner = core_->Leave(execution_, {num_members_, num_unlaunched_});
}

void ExecutorCore::EndPart(const Part& part, absl::Status status,
                           StatusCallback&& done) {
  const size_t num_unlaunched = part.has_launched ? 0 : 1;
  JointEnd* const joint = joint_end;
  if (status.ok() && joint != nullptr && &joint->execution_ == part.execution) {
    joint->core_ = this;
    ++joint->num_members_;
    joint->num_unlaunched_ += num_unlaunched;
    return std::move(done)(std::move(status));
  }
  const Owner owner = Leave(*part.execution, {1, num_unlaunched});
  if (status.ok()) return std::move(done)(std::move(status));
  FinishOnTrampoline(std::move(done), std::move(status));
}

ExecutorCore::Owner ExecutorCore::Leave(
    Execution& execution, const ExecutionTable::Leaving& leaving) {
  const InstanceId id = execution.id;
  ExecutionTable::Left left =
      TableOf(execution.number).Leave(execution, leaving);
  if (left.to_forget.has_value()) {
    options_.peers->ForgetExecution(*left.to_forget);
  }
  if (leaving.num_unlaunched > 0) dependencies_.Launched(id);
  return std::move(left.owner);
}

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
  // Keeps the executor: `ready` may run before WaitFor() returns, and leave the
  // execution, which may have kept it alone.
  const auto self = shared_from_this();
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
