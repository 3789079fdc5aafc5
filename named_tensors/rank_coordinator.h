#ifndef TUTTI_NAMED_TENSORS_RANK_COORDINATOR_H_
#define TUTTI_NAMED_TENSORS_RANK_COORDINATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "named_tensors/coordinator_server.h"
#include "named_tensors/pending_tensor.h"
#include "named_tensors/pending_tensors.h"
#include "named_tensors/runs_in_order.h"
#include "tutti/cluster_runtime.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/named_tensors.h"

namespace tutti {

// Coordinator of one rank.
//
// Nothing ticks: a rank keeps one call open at rank zero, which is answered
// when there is something to say.
class RankCoordinator : public Coordinator,
                        public std::enable_shared_from_this<RankCoordinator> {
 public:
  struct Options {
    ClusterSpec cluster;
    Environment environment;
    std::shared_ptr<Device> device;  // With its manager.
    std::shared_ptr<ControlChannel> channel;

    // Rank zero's, on rank zero.
    std::shared_ptr<CoordinatorServer> server;

    // Of the step in which what is decided runs, for this coordinator alone;
    // asked for inside the first request.
    std::function<std::shared_ptr<CollectiveExecutor>()> executor;
    GroupKey group_key = 0;  // As the step.

    // The incarnation of the process that the task is now; 0 if none is known.
    // May be null.
    std::function<uint64_t(int task)> present_process;

    // Runs once, when this rank asks for something. May be null.
    std::function<void()> begun;
  };

  static std::shared_ptr<RankCoordinator> Create(Options options);

  // As Retire(), with CANCELLED.
  ~RankCoordinator() override;
  RankCoordinator(const RankCoordinator&) = delete;
  RankCoordinator& operator=(const RankCoordinator&) = delete;

  void AllReduce(NamedTensor tensor, StatusCallback done) override;
  void AllGather(NamedTensor tensor, StatusCallback done) override;
  void Shutdown(StatusCallback done) override;

  // Ends everything on this rank at once, also what runs, and tells rank zero
  // if it can: there it ends on all ranks. So also if this rank has asked for
  // nothing: the others may wait for it.
  void End(absl::Status reason);

  // The rank goes away. As End(), but one that has asked for nothing tells
  // nobody: its program may use no named tensors.
  void Retire(absl::Status reason);

  // On rank zero, after an end that let what was decided finish: now it cannot.
  // Ends what runs, on all ranks.
  void GiveUpRuns(const absl::Status& reason);

  // That process is lost to this one; with incarnation 0, whichever its task
  // had. Everything ends if it is needed: not if it has asked for nothing, and
  // was asked for nothing, before another one took its place.
  void OnTaskLost(const ControlCaller& process, const absl::Status& reason);

  // Whose loss would leave somebody waiting.
  std::vector<int> WaitsFor();

 private:
  explicit RankCoordinator(Options options);

  int rank() const { return options_.cluster.this_task; }
  uint64_t PresentProcess(int task) const;
  void Call(proto::ControlRequest request, ControlDone done);

  void Submit(CollectiveType type, NamedTensor tensor, StatusCallback done);
  absl::Status Prepare(PendingTensor& pending);
  absl::Status Enter(const PendingTensorPtr& pending) ABSL_LOCKS_EXCLUDED(mu_);
  void SayWhetherWaits() ABSL_LOCKS_EXCLUDED(mu_);
  void Begin() ABSL_LOCKS_EXCLUDED(mu_);
  void SendNext() ABSL_LOCKS_EXCLUDED(mu_);

  void AwaitDecisions() ABSL_LOCKS_EXCLUDED(mu_);
  void OnDecisions(const ControlAnswer& answer) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status CheckNumber(uint64_t first_number) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Follow(const proto::Decision& decision) ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<std::vector<PendingTensorPtr>> TakeDecided(
      const proto::Decision& decision) ABSL_LOCKS_EXCLUDED(mu_);
  void Run(const proto::Decision& decision,
           std::vector<PendingTensorPtr> tensors);
  void Leave(const std::vector<PendingTensorPtr>& tensors)
      ABSL_LOCKS_EXCLUDED(mu_);
  void OnRunEnded(InstanceKey instance, bool went_well)
      ABSL_LOCKS_EXCLUDED(mu_);
  void OnTold() ABSL_LOCKS_EXCLUDED(mu_);

  // The end comes once, in EndHere(): what is undecided ends with its status
  // and, by kCancel, what runs. To there lead
  //  - Shutdown(): tells rank zero, which says so to all ranks, this one
  //    included, after what it had decided before;
  //  - Fail(): a call has failed, or rank zero says what cannot be. Tells rank
  //    zero, and does not wait for it;
  //  - End() and Retire(), by EndAll(): the same, also for runs that an earlier
  //    end let finish;
  //  - the loss of task 0. Rank zero's server, told of any loss, answers all.
  void Fail(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);
  void EndAll(absl::Status reason, bool also_unused) ABSL_LOCKS_EXCLUDED(mu_);
  void EndHere(absl::Status status, DecidedRuns runs) ABSL_LOCKS_EXCLUDED(mu_);
  bool IsReplaced(const ControlCaller& process) ABSL_LOCKS_EXCLUDED(mu_);
  void TellEnd(const absl::Status& reason, DecidedRuns runs, ControlDone done);
  void AnswerShutdowns() ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;
  const std::shared_ptr<Cancellation> calls_ = std::make_shared<Cancellation>();
  const std::shared_ptr<Cancellation> runs_ = std::make_shared<Cancellation>();
  const std::shared_ptr<RunsInOrder> in_order_;  // Null: runs need no order.

  Mutex mu_;
  bool has_begun_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t asked_process_ ABSL_GUARDED_BY(mu_) = 0;  // Of task 0.
  std::shared_ptr<CollectiveExecutor> executor_ ABSL_GUARDED_BY(mu_);
  bool is_shutting_down_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status end_ ABSL_GUARDED_BY(mu_);
  std::vector<StatusCallback> shutdowns_ ABSL_GUARDED_BY(mu_);
  absl::Status shutdown_status_ ABSL_GUARDED_BY(mu_);

  // What goes to rank zero: one message at a time, so that they stay in order.
  PendingTensors pending_ ABSL_GUARDED_BY(mu_);
  bool is_sending_ ABSL_GUARDED_BY(mu_) = false;

  // For a decision, as the channel has been told.
  bool waits_ ABSL_GUARDED_BY(mu_) = false;

  // What comes from there.
  uint64_t last_decision_ ABSL_GUARDED_BY(mu_) = 0;

  // Decisions, and the end, of which not all callbacks have run.
  int64_t num_untold_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_RANK_COORDINATOR_H_
