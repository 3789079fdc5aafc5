#include "framework/collective_executor.h"

#include <memory>
#include <utility>

#include "framework/block_cache.h"
#include "framework/member_op.h"
#include "framework/run_in_turn.h"
#include "framework/settled_call.h"

namespace tutti {
namespace {

// The innermost on this thread.
thread_local CollectiveExecutor::JointEnd* joint_end = nullptr;

}  // namespace

std::shared_ptr<CollectiveExecutor> CollectiveExecutor::Create(
    Options options) {
  const std::shared_ptr<CollectiveExecutor> executor(
      new CollectiveExecutor(std::move(options)));
  executor->peers().WatchEnds(
      [weak = executor->weak_from_this()](const ExecKey& exec,
                                          const absl::Status& reason) {
        const auto self = weak.lock();
        if (self != nullptr) self->OnEndedByPeer(exec, reason);
      });
  return executor;
}

CollectiveExecutor::CollectiveExecutor(Options options)
    : options_(std::move(options)),
      executions_(options_.step_id, options_.devices->devices().size(),
                  options_.max_entries),
      dependencies_([this](InstanceId id, uint64_t number) {
        return executions_.HasLaunched(id, number);
      }) {}

CollectiveExecutor::~CollectiveExecutor() {
  MutexLock lock(&mu_);
  for (const auto& [group, watched] : watched_groups_) {
    if (watched.cancellation != nullptr) {
      watched.cancellation->Unwatch(watched.id);
    }
  }
}

void CollectiveExecutor::ExecuteAsync(CollectiveArgs args,
                                      StatusCallback done) {
  if (SettledCall::Start(*this, &args, &done)) return;
  std::allocate_shared<MemberOp>(CachedAllocator<MemberOp>(),
                                 shared_from_this(), std::move(args),
                                 std::move(done))
      ->Start();
}

void CollectiveExecutor::Prepare(CollectiveArgs args, PrepareCallback done) {
  std::allocate_shared<MemberOp>(CachedAllocator<MemberOp>(),
                                 shared_from_this(), std::move(args),
                                 std::move(done))
      ->Start();
}

void CollectiveExecutor::StartAbort(absl::Status reason) {
  aborted_.Cancel(std::move(reason));
  const absl::Status first = aborted_.status();
  // All transfers at once: execution by execution, each would look for its own
  // among all that wait.
  options_.peers->StartAbort(first);
  for (const auto& execution : executions_.Running()) {
    FailExecution(*execution, first);
  }
}

void CollectiveExecutor::WaitForDependencies(const CollectiveContext& context,
                                             StatusCallback ready) {
  dependencies_.WaitFor(context.params->instance->impl_details.dependencies,
                        context.exec_key.execution,
                        context.execution->cancellation, std::move(ready));
}

void CollectiveExecutor::Launched(const CollectiveContext& context) {
  if (context.launched.load(std::memory_order_relaxed) ||
      context.launched.exchange(true, std::memory_order_relaxed)) {
    return;
  }
  Execution& execution = *context.execution;
  execution.num_launched.fetch_add(1, std::memory_order_seq_cst);
  dependencies_.Launched(execution.id);
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
  dependencies_.Launched(execution.id);
}

void CollectiveExecutor::ShowObserver(const CollectiveContext& context,
                                      const CollectiveRequest& request) {
  if (options_.observer == nullptr) return;
  const Tensor none;
  const bool has_segments = context.segments != nullptr;
  options_.observer->OnFinished(
      {.device = *context.device,
       .request = request,
       .step_id = context.exec_key.step,
       .execution = context.exec_key.execution,
       .output = has_segments ? none : context.result(),
       .segments = context.segments.get()});
}

void CollectiveExecutor::FailExecution(Execution& execution,
                                       absl::Status status) {
  execution.cancellation.Cancel(std::move(status));
  CancelTransfers(execution);
  dependencies_.Launched(execution.id);  // Who has not come need not.
}

void CollectiveExecutor::CancelTransfers(Execution& execution) {
  const auto key = executions_.BeginCancel(execution);
  if (!key.has_value()) return;
  const absl::Status reason = execution.cancellation.status();
  const bool has_group = key->generation != 0;
  if (has_group) {
    options_.peers->CancelExecution(execution.group(), *key, reason);
  }
  // Those who come later come to another generation.
  if (!has_group || execution.group().cancellation->cancelled()) {
    options_.param_resolver->GiveUp(
        execution.id, {.step_id = key->step, .execution = key->execution},
        options_.beginning, reason);
  }
  const auto forgotten = executions_.EndCancel(execution);
  if (forgotten.has_value()) options_.peers->ForgetExecution(*forgotten);
}

// Its members here may wait for each other, or for dependencies.
void CollectiveExecutor::OnEndedByPeer(const ExecKey& exec,
                                       const absl::Status& reason) {
  const auto execution = executions_.Find(exec);
  if (execution != nullptr) FailExecution(*execution, reason);
}

absl::Status CollectiveExecutor::StatusOf(
    const ExecutionTable::Settled& settled,
    const CollectiveContext& context) const {
  if (aborted_.cancelled()) return aborted_.status();
  if (settled.group_end->cancelled()) return settled.group_end->status();
  const Cancellation& execution = context.execution->cancellation;
  if (execution.cancelled()) return execution.status();
  if (!settled.spans_tasks) return absl::OkStatus();
  return options_.peers->StatusOf(context.exec_key);
}

void CollectiveExecutor::WatchGroup(const CollGroupParams& group) {
  const std::pair<GroupKey, uint64_t> id{group.key, group.generation};
  {
    MutexLock lock(&mu_);
    if (!watched_groups_.try_emplace(id).second) return;
  }
  const Cancellation::WatchId watch = group.cancellation->Watch(
      [weak = weak_from_this(), id](const absl::Status& reason) {
        const auto self = weak.lock();
        if (self != nullptr) self->FailGroup(id.first, id.second, reason);
      });
  MutexLock lock(&mu_);
  const auto found = watched_groups_.find(id);
  if (found != watched_groups_.end()) {
    found->second = {group.cancellation, watch};
  }
}

void CollectiveExecutor::FailGroup(GroupKey key, uint64_t generation,
                                   const absl::Status& reason) {
  {
    MutexLock lock(&mu_);
    watched_groups_.erase({key, generation});
  }
  for (const auto& execution : executions_.RunningIn(key, generation)) {
    FailExecution(*execution, reason);
  }
}

CollectiveExecutor::JointEnd::JointEnd(Execution& execution)
    : execution_(execution), outer_(std::exchange(joint_end, this)) {}

CollectiveExecutor::JointEnd::~JointEnd() {
  joint_end = outer_;
  if (num_members_ == 0) return;
  const auto owner =
      executor_->Leave(execution_, {num_members_, num_unlaunched_, calls_});
}

void CollectiveExecutor::EndPart(const Part& part, absl::Status status,
                                 StatusCallback&& done) {
  // `done` may be the call's.
  StatusCallback mine = std::move(done);
  const size_t num_unlaunched = part.has_launched ? 0 : 1;
  JointEnd* const joint = joint_end;
  if (status.ok() && joint != nullptr && &joint->execution_ == part.execution) {
    joint->executor_ = this;
    ++joint->num_members_;
    joint->num_unlaunched_ += num_unlaunched;
    if (part.call != nullptr) joint->calls_.push_back(part.call);
    return std::move(mine)(std::move(status));
  }
  const size_t num_calls = part.call == nullptr ? 0 : 1;
  const Owner owner =
      Leave(*part.execution,
            {1, num_unlaunched, absl::MakeConstSpan(&part.call, num_calls)});
  if (status.ok()) return std::move(mine)(std::move(status));
  EndInTurn(std::move(mine), std::move(status));
}

CollectiveExecutor::Owner CollectiveExecutor::Leave(
    Execution& execution, const ExecutionTable::Leaving& leaving) {
  const InstanceId id = execution.id;
  ExecutionTable::Left left = executions_.Leave(execution, leaving);
  if (left.to_forget.has_value()) {
    options_.peers->ForgetExecution(*left.to_forget);
  }
  if (leaving.num_unlaunched > 0) dependencies_.Launched(id);
  return std::move(left.owner);
}

}  // namespace tutti
