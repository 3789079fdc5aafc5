#ifndef TUTTI_FRAMEWORK_EXECUTOR_PREPARED_OP_H_
#define TUTTI_FRAMEWORK_EXECUTOR_PREPARED_OP_H_

#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "framework/executor/execution_table.h"
#include "framework/executor/executor_core.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"

namespace tutti {

// Implementation of PreparedCollective: the steps of a MemberOp after its
// preparation. Some starts need more steps: those with a limit, dependencies,
// an ended group, or segments to pack. Such a start is a call of
// ExecuteAsync().
//
// Lives until its caller has released it and no start is under way.
class PreparedOp : public PreparedCollective {
 public:
  // Creates the op for a member that has joined and is settled. `context` is
  // initialised except for the execution.
  static std::shared_ptr<PreparedCollective> Create(
      std::shared_ptr<CollectiveExecutor> executor,
      std::shared_ptr<const SettledFacts> settled,
      const CollectiveContext& context);

  void Start(StatusCallback done) override;
  void Start(Limits limits, StatusCallback done) override;
  const CollectiveParams& params() const override { return *settled_->params; }
  const Tensor& output() const override { return context_.output; }

 private:
  PreparedOp(std::shared_ptr<CollectiveExecutor> executor,
             std::shared_ptr<const SettledFacts> settled,
             const CollectiveContext& context);
  ~PreparedOp() override;

  void LetGo();
  bool Claim(StatusCallback* done);
  void Release();
  bool NeedsCall() const;
  void Call(Limits limits, StatusCallback done);
  absl::Status Join();
  void Finish(absl::Status status);
  void Refuse(absl::Status status);

  const std::shared_ptr<CollectiveExecutor> executor_;
  ExecutorCore& core_ = executor_->core();
  const std::shared_ptr<const SettledFacts> settled_;
  TableMember& member_;
  bool always_calls_ = false;

  // Bits of state_.
  static constexpr int kRunning = 1;
  static constexpr int kLetGo = 2;  // Released by the caller.

  std::atomic<int> state_{0};

  // Fields below belong to the start that set kRunning.
  CollectiveContext context_;
  Execution* execution_ = nullptr;
  StatusCallback done_;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_PREPARED_OP_H_
