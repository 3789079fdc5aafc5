#include "framework/executor/settled_call.h"

#include <atomic>
#include <utility>

#include "absl/time/time.h"
#include "framework/base/status_macros.h"
#include "framework/executor/executor_core.h"
#include "framework/executor/member_buffers.h"

namespace tutti {

bool SettledCall::Start(CollectiveExecutor& executor, CollectiveArgs* args,
                        StatusCallback* done) {
  const bool may_wait = args->cancellation != nullptr ||
                        args->deadline != absl::InfiniteFuture() ||
                        args->execution.has_value() ||
                        args->segments != nullptr;
  if (may_wait || args->device == nullptr || args->request == nullptr ||
      executor.core().aborted().cancelled()) {
    return false;
  }
  absl::Status joined;
  TableCall* const call = executor.core().executions().JoinSettled(
      args->device, *args->request,
      [&executor] { return executor.shared_from_this(); }, &joined);
  if (call == nullptr) return false;
  call->context.executor = &executor;
  call->done = *done == nullptr ? [](absl::Status) {} : std::move(*done);
  absl::Status status = Prepare(*call, args, std::move(joined));
  if (!status.ok()) {
    args->input = Tensor();  // Still set if the call ended early.
    Finish(*call, std::move(status));
    return true;
  }
  call->settled->implementation->Run(call->context, [call](absl::Status ended) {
    Finish(*call, std::move(ended));
  });
  return true;
}

absl::Status SettledCall::Prepare(TableCall& call, CollectiveArgs* args,
                                  absl::Status joined) {
  CollectiveContext& context = call.context;
  context.late_output = nullptr;
  context.implementation_state = nullptr;
  context.first_tag = 0;
  context.launched.store(false, std::memory_order_relaxed);
  RETURN_IF_ERROR(context.executor->core().StatusOf(*call.settled, context));
  if (!joined.ok()) return joined;
  RETURN_IF_ERROR(PrepareMemberBuffers(*call.settled, args, &context));
  return call.settled->implementation->InitializeCollectiveContext(&context);
}

void SettledCall::Finish(TableCall& call, absl::Status status) {
  CollectiveContext& context = call.context;
  ExecutorCore& core = context.executor->core();
  Execution& execution = *call.execution;
  if (!status.ok()) {
    core.FailExecution(execution, std::move(status));
    status = execution.cancellation.status();
  }
  if (status.ok()) core.ShowObserver(context, *call.settled->request);
  context.input = Tensor();
  context.output = Tensor();
  core.EndPart({&execution, context.launched, &call}, std::move(status),
               std::move(call.done));
}

}  // namespace tutti
