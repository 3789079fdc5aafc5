#ifndef TUTTI_FRAMEWORK_EXECUTOR_CALL_H_
#define TUTTI_FRAMEWORK_EXECUTOR_CALL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/executor/any_receives.h"
#include "framework/executor/execution_table.h"
#include "framework/executor/executor_core.h"
#include "framework/executor/point_to_point.h"
#include "framework/executor/premultiplication.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/tensor.h"

namespace tutti {

// Part of one member in one execution, from its arrival to its `done`: join,
// settle, check, wait for dependencies, run, finish. It has three entries:
//  - Execute() and Prepare() make a call that passes all of these. A member
//    whose instance was settled by an earlier call goes on at once. A call of
//    Prepare() ends after the check and becomes a PreparedCollective.
//  - SendOrRecv() makes a call that is settled from the start. A receive from
//    any member is a call that waits for a sender, and then another one.
//  - Start() of what is prepared only joins and runs. If that is not enough
//    (limits, dependencies, a new group, segments to pack), it makes a call of
//    its own.
//
// Each phase ends by itself when the execution fails: there is one way to the
// end. Until then a call belongs to itself, or to the callback that it waits
// for; afterwards, if it is prepared, to its holder. The execution, which it is
// in, keeps the executor.
class Call {
 public:
  static void Execute(CollectiveExecutor& executor, CollectiveArgs& args,
                      StatusCallback&& done);
  static void Prepare(CollectiveExecutor& executor, CollectiveArgs& args,
                      CollectiveExecutor::PrepareCallback done);
  static void SendOrRecv(CollectiveExecutor& executor, PointToPointArgs& args,
                         bool sends, StatusCallback done);

  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Take memory from a cache.
  static void* operator new(size_t size);
  static void operator delete(void* block);

 private:
  class Prepared;
  struct Watch;
  enum class Phase { kResolve, kDependencies, kRun };

  // Inline: every call goes through these phases, which call.cc alone runs.
  enum class Kind : uint8_t { kExecution, kPreparation, kMessage };
  Call(CollectiveExecutor& executor, Device* device, Kind kind);
  // `message`: params that settle a message; null for other calls.
  // `joined_before`: set if the message's execution has been joined.
  void Begin(CollectiveArgs& args,
             std::shared_ptr<const CollectiveParams> message = nullptr,
             ExecutionTable::Joined* joined_before = nullptr);
  void GoOn(CollectiveArgs& args, absl::Status status);
  static void BeginMessage(CollectiveExecutor& executor, PointToPointArgs& args,
                           Message message, StatusCallback done,
                           ExecutionTable::Joined* joined_before = nullptr);
  static void RecvFromAny(CollectiveExecutor& executor, PointToPointArgs& args,
                          Message message, StatusCallback done);
  void AwaitSender();
  static absl::Status DescribeEnd(const AnyReceive& receive,
                                  const absl::Status& reason);
  inline ExecutionTable::Joined Join(const CollectiveArgs& args);
  void WatchLimits(const CollectiveArgs& args);
  void StopWatching();  // REQUIRES: there are limits.
  std::string DescribeName(const CollectiveRequest& request) const;
  std::string DescribeWait(const CollectiveRequest& request) const;
  std::string DescribeUnmatched(const CollectiveRequest& request) const;
  std::string DescribeNotLaunched() const;
  std::string DescribeAbsent() const;
  void Resolve(CollectiveArgs args);
  absl::Status Settle(std::shared_ptr<const CollectiveParams> params,
                      const CollectiveArgs& args);
  absl::Status TakeOwnRows(const CollectiveArgs& args);
  absl::Status MakeSettled(std::shared_ptr<const CollectiveParams> params,
                           const CollectiveArgs& args);
  inline void Check(CollectiveArgs& args);
  inline absl::Status PrepareContext(CollectiveArgs& args);
  void WaitForDependencies();
  inline void Run();
  void RunPremultiplied();
  void RunPacked();
  // Type of Pack() and Unpack(), which copy between the segments and the
  // output.
  using SegmentCopies = absl::Status (*)(const SegmentList& segments,
                                         Tensor& packed, CopyPiece copy);
  void CopySegments(SegmentCopies copies, StatusCallback done);
  void RunOnHost(int64_t num_bytes, Work work);
  void Finish(absl::Status status);
  inline void End(absl::Status status);
  // Finishes a call that may not have taken its buffers out of `args`.
  void FinishEarly(CollectiveArgs& args, absl::Status status);
  void FinishPreparation();
  void EndPreparation();
  void Refuse(absl::Status status);
  inline void Release();
  void Start(StatusCallback done);
  bool Claim(StatusCallback* done);
  void StartCall(PreparedCollective::Limits limits, StatusCallback done);
  ExecutorCore& core() const { return context_.executor->core(); }
  ExecutionTable& table() const {
    return kind_ == Kind::kMessage ? core().messages() : core().executions();
  }

  StatusCallback done_;
  const SettledFacts* settled_ = nullptr;  // Of the table, or `own_settled_`.
  std::shared_ptr<const SettledFacts> own_settled_;
  CollectiveContext context_;
  std::unique_ptr<const Premultiplication> factor_;  // Null without a factor.
  std::atomic<Phase> phase_{Phase::kResolve};
  const Kind kind_;
  std::shared_ptr<Watch> watch_;             // Null without limits.
  std::shared_ptr<AnyReceive> any_receive_;  // While it waits for a sender.

  // Set once prepared.
  TableMember* member_ = nullptr;
  std::shared_ptr<CollectiveExecutor> kept_executor_;
  std::shared_ptr<PreparedCollective> prepared_;  // Until `done_` has it.
  bool always_calls_ = false;

  // Bits of state_.
  static constexpr int kRunning = 1;
  static constexpr int kReleased = 2;  // Nobody can start it any more.
  std::atomic<int> state_{0};
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_CALL_H_
