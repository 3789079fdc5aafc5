#ifndef TUTTI_FRAMEWORK_PREPARED_OP_H_
#define TUTTI_FRAMEWORK_PREPARED_OP_H_

#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "framework/cancellation.h"
#include "framework/collective_context.h"
#include "framework/collective_executor.h"
#include "framework/execution_table.h"
#include "framework/prepared_collective.h"
#include "framework/status_callback.h"

namespace tutti {

// What PreparedCollective promises: the walk of a MemberOp from where it has
// been prepared. Starts that need more of that walk, because they have a limit,
// dependencies, an ended group, or segments to pack, are calls.
class PreparedOp : public PreparedCollective,
                   public std::enable_shared_from_this<PreparedOp> {
 public:
  // Of a member that has joined and is settled; `context` is initialised but
  // for the execution.
  PreparedOp(std::shared_ptr<CollectiveExecutor> executor,
             std::shared_ptr<const ExecutionTable::Settled> settled,
             const CollectiveContext& context);
  ~PreparedOp() override;

  void Start(StatusCallback done) override;
  void Start(Limits limits, StatusCallback done) override;
  const CollectiveParams& params() const override { return *settled_->params; }
  const Tensor& output() const override { return context_.output; }

 private:
  bool Claim(StatusCallback* done);
  bool NeedsCall() const;
  void Call(Limits limits, StatusCallback done);
  absl::Status Join();
  void Finish(absl::Status status);
  void End(absl::Status status);

  const std::shared_ptr<CollectiveExecutor> executor_;
  const std::shared_ptr<const ExecutionTable::Settled> settled_;
  // The group's, kept by `settled_`: at hand, as starts look at it often, and
  // what leads there may have left the caches.
  const Cancellation& group_;
  ExecutionTable::Member& member_;
  bool always_calls_ = false;

  // All else belongs to the start that has set it.
  std::atomic<bool> is_running_{false};
  CollectiveContext context_;
  std::shared_ptr<Execution> execution_;
  StatusCallback done_;
  std::shared_ptr<PreparedOp> self_;  // Until the end.
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_PREPARED_OP_H_
