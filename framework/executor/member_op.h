#ifndef TUTTI_FRAMEWORK_EXECUTOR_MEMBER_OP_H_
#define TUTTI_FRAMEWORK_EXECUTOR_MEMBER_OP_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/executor/execution_table.h"
#include "framework/executor/executor_core.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/tensor.h"

namespace tutti {

// Call of CollectiveExecutor::ExecuteAsync, from the arrival of the member to
// its `done`: resolve, check, wait for dependencies, run, finish. Or a call of
// Prepare, which ends after the check.
//
// Each phase ends by itself when the execution fails: there is one way to the
// end. The callbacks that it waits for keep it alive; while it runs, it keeps
// itself alive.
class MemberOp : public std::enable_shared_from_this<MemberOp> {
 public:
  MemberOp(std::shared_ptr<CollectiveExecutor> executor, CollectiveArgs args,
           StatusCallback done);
  MemberOp(std::shared_ptr<CollectiveExecutor> executor, CollectiveArgs args,
           CollectiveExecutor::PrepareCallback done);
  MemberOp(const MemberOp&) = delete;
  MemberOp& operator=(const MemberOp&) = delete;

  // Starts the call. Call once.
  void Start();

 private:
  enum class Phase { kResolve, kDependencies, kRun };

  absl::Status CheckArgs() const;
  absl::Status Join();
  void WatchCancellation();
  void ArmDeadline();
  void OnDeadline(const std::string& caller);
  std::string DescribeWait() const;
  std::string DescribeNotLaunched() const;
  std::string DescribeAbsent() const;
  bool IsSettled() const;
  void Resolve();
  void OnResolved(
      absl::StatusOr<std::shared_ptr<const CollectiveParams>> params);
  absl::Status Settle(std::shared_ptr<const CollectiveParams> params);
  absl::Status TakeOwnRows();
  absl::Status MakeSettled(std::shared_ptr<const CollectiveParams> params);
  void Prepare();
  absl::Status PrepareContext();
  void Run();
  void RunImplementation();
  void RunPacked();
  void OnPackedResult(absl::Status status);
  // Type of Pack() and Unpack(), which copy between the segments and the
  // output.
  using SegmentCopies = absl::Status (*)(const SegmentList& segments,
                                         Tensor& packed, CopyPiece copy);
  void CopySegments(SegmentCopies copies, StatusCallback done);
  void Finish(absl::Status status);
  void EndPreparation();
  void Refuse(absl::Status status);
  void ClearArgs();

  const std::shared_ptr<CollectiveExecutor> executor_;
  ExecutorCore& core_ = executor_->core();
  CollectiveArgs args_;
  StatusCallback done_;
  const bool is_preparation_ = false;
  std::shared_ptr<PreparedCollective> prepared_;
  std::shared_ptr<Execution> execution_;
  absl::Status join_status_;
  std::shared_ptr<const SettledFacts> settled_;
  CollectiveContext context_;
  absl::Time start_;
  Clock::AlarmId alarm_ = 0;
  Cancellation::WatchId watch_ = 0;
  std::atomic<Phase> phase_{Phase::kResolve};
  std::atomic<bool> finished_{false};
  std::shared_ptr<MemberOp> self_;  // Set from Run() to the end.
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_MEMBER_OP_H_
