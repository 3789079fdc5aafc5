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
#include "named_tensors/coordinator_ranks.h"
#include "named_tensors/coordinator_server.h"
#include "named_tensors/decision_run.h"
#include "named_tensors/pending_tensors.h"
#include "tutti/cluster_runtime.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/named_tensors.h"

namespace tutti {

// Coordinator of one rank.
//
// Sends no periodic messages: the rank keeps one call open at rank zero, and
// rank zero answers it with news.
class RankCoordinator : public Coordinator,
                        public std::enable_shared_from_this<RankCoordinator> {
 public:
  struct Options {
    ClusterSpec cluster;
    std::vector<int> tasks;  // As in CoordinatorRanks; this task has a rank.
    int64_t key = 0;         // Key of the coordinator in CoordinatorTable.
    Environment environment;
    std::shared_ptr<Device> device;  // Shares ownership of its manager.
    std::shared_ptr<ControlChannel> channel;

    // Server of rank zero; set on rank zero only.
    std::shared_ptr<CoordinatorServer> server;

    // Finds the executor of the step in which decisions run. No other
    // coordinator may use this step. Called inside the first request.
    std::function<std::shared_ptr<CollectiveExecutor>()> executor;
    GroupKey group_key = 0;  // Used by this coordinator only.

    // Returns the incarnation of the task's present process; 0 if unknown. May
    // be null.
    std::function<uint64_t(int task)> present_process;

    // Runs once, at the first request of this rank. May be null.
    std::function<void()> begun;
  };

  static std::shared_ptr<RankCoordinator> Create(Options options);

  // Calls Retire() with CANCELLED; with a key, End(): the rank is expected.
  ~RankCoordinator() override;
  RankCoordinator(const RankCoordinator&) = delete;
  RankCoordinator& operator=(const RankCoordinator&) = delete;

  void AllReduce(NamedTensor tensor, StatusCallback done) override;
  void AllGather(NamedTensor tensor, StatusCallback done) override;
  void Broadcast(NamedTensor tensor, StatusCallback done) override;
  void ReduceScatter(NamedTensor tensor, StatusCallback done) override;
  void AllToAll(NamedTensor tensor, StatusCallback done) override;
  void Join(JoinCallback done) override;
  void Shutdown(StatusCallback done) override;
  void End(absl::Status reason) override;

  // Called when the rank goes away. Same as End(), but a rank without requests
  // notifies nobody: its program may use no named tensors.
  void Retire(absl::Status reason);

  // Ends runs on all ranks. Called on rank zero, after an end that let runs
  // finish, when they cannot finish.
  void GiveUpRuns(const absl::Status& reason);

  // Called when this process has lost another process. Incarnation 0 matches
  // every process of the task. Ends everything if the lost process is needed.
  // It is not needed if another process took its place before it exchanged any
  // request with this one.
  void OnTaskLost(const ControlCaller& process, const absl::Status& reason);

  // Processes whose loss would leave a request waiting. Incarnation 0: any
  // process of the task.
  std::vector<ControlCaller> WaitsFor();

 private:
  explicit RankCoordinator(Options options);

  int task() const { return options_.cluster.this_task; }
  uint64_t PresentProcess(int task) const;
  template <typename Message>
  void SetCoordinator(bool gives_ranks, Message& message) const;
  void Call(proto::ControlRequest request, ControlDone done);

  void Submit(CollectiveType type, NamedTensor tensor, StatusCallback done);
  absl::Status CheckIsOpen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
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
  void OnAllJoined(absl::StatusOr<int> last) ABSL_LOCKS_EXCLUDED(mu_);
  void OnRunEnded(InstanceKey instance, bool went_well)
      ABSL_LOCKS_EXCLUDED(mu_);
  void OnReported() ABSL_LOCKS_EXCLUDED(mu_);

  // The end comes once, in EndHere(). Undecided requests end with its status,
  // and with kCancel runs end, too. Four ways lead there:
  //  - Shutdown(): notifies rank zero, which sends the end to all ranks,
  //    including this one, after its earlier decisions;
  //  - Fail(): a call failed, or rank zero sent an invalid message. Notifies
  //    rank zero without waiting for it;
  //  - End() and Retire(), by EndAll(): like Fail(), and also ends runs that an
  //    earlier end let finish;
  //  - the loss of rank zero's task. Rank zero's server learns of every loss
  //    and answers all ranks.
  void Fail(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);
  void EndAll(absl::Status reason, bool also_unused) ABSL_LOCKS_EXCLUDED(mu_);
  void EndHere(absl::Status status, DecidedRuns runs) ABSL_LOCKS_EXCLUDED(mu_);
  bool IsReplaced(const ControlCaller& process) ABSL_LOCKS_EXCLUDED(mu_);
  void ReportEnd(const absl::Status& reason, DecidedRuns runs,
                 ControlDone done);
  void AnswerShutdowns() ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;
  const CoordinatorRanks members_;
  const RankPlace place_;
  const std::shared_ptr<Cancellation> calls_ = std::make_shared<Cancellation>();
  const std::shared_ptr<Cancellation> runs_ = std::make_shared<Cancellation>();
  const std::shared_ptr<RunsInOrder> in_order_;  // Null: runs need no order.

  Mutex mu_;
  bool has_begun_ ABSL_GUARDED_BY(mu_) = false;
  // Process of rank zero.
  uint64_t requested_process_ ABSL_GUARDED_BY(mu_) = 0;
  std::shared_ptr<CollectiveExecutor> executor_ ABSL_GUARDED_BY(mu_);
  bool is_shutting_down_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status end_ ABSL_GUARDED_BY(mu_);
  std::vector<StatusCallback> shutdowns_ ABSL_GUARDED_BY(mu_);
  absl::Status shutdown_status_ ABSL_GUARDED_BY(mu_);

  // Requests to rank zero: one message at a time, which keeps them in order.
  PendingTensors pending_ ABSL_GUARDED_BY(mu_);
  bool is_sending_ ABSL_GUARDED_BY(mu_) = false;
  JoinCallback join_ ABSL_GUARDED_BY(mu_);  // Null unless the rank has joined.

  // Whether requests wait for a decision, as last reported to the channel.
  bool waits_ ABSL_GUARDED_BY(mu_) = false;

  // Number of the last decision received.
  uint64_t last_decision_ ABSL_GUARDED_BY(mu_) = 0;

  // Number of decisions, plus the end, whose callbacks have not all run.
  int64_t num_unreported_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_RANK_COORDINATOR_H_
