#ifndef TUTTI_NAMED_TENSORS_COORDINATOR_SERVER_H_
#define TUTTI_NAMED_TENSORS_COORDINATOR_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "named_tensors/coordinator_ranks.h"
#include "named_tensors/negotiation.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/named_tensors.h"

namespace tutti {

// Fate of decided runs at the end: finish or cancel.
enum class DecidedRuns { kFinish, kCancel };

// Rank zero's side of the coordinator. Receives the requests of all ranks,
// decides, and answers each rank's AwaitDecisions with the rank's decisions.
// Ranks are tasks of the cluster.
//
// While collectives run, small ready collectives are gathered, to run together.
// Nothing waits for a time, and nothing waits while nothing runs.
//
// Thread-safe. Calls out with no lock held.
class CoordinatorServer
    : public ControlService,
      public std::enable_shared_from_this<CoordinatorServer> {
 public:
  static constexpr int64_t kMaxUnsettled = 256;

  struct Options {
    ClusterSpec cluster;
    std::vector<int> tasks;  // As in CoordinatorRanks.
    Clock* clock = nullptr;  // Outlives the object and its alarms.
    CoordinatorSettings settings;

    // Bound on the entries of instances that the tasks keep, as in
    // ParamResolverDistributed::Options::max_entries. Up to a quarter of them
    // serves collectives that run at their exact lengths.
    size_t max_entries = size_t{1} << 19;

    // Bound on unsettled instances. Nothing is decided beyond it. An instance
    // stays unsettled until all ranks have run it.
    int64_t max_unsettled = kMaxUnsettled;

    // Runs once, at the first request of any rank. May be null.
    std::function<void()> begun;

    // Runs at most once. Called if a rank ends with kCancel after an end with
    // kFinish and has not received all decisions: the other ranks would wait
    // for it. May be null.
    std::function<void(const absl::Status& reason)> give_up;
  };

  static std::shared_ptr<CoordinatorServer> Create(Options options);
  ~CoordinatorServer() override;

  // Errors: INVALID_ARGUMENT for an invalid message; ALREADY_EXISTS and
  // RESOURCE_EXHAUSTED as Negotiation::Add(); ABORTED for an AwaitDecisions
  // that a later one of the same rank has replaced.
  void Handle(const ControlCaller& caller, const proto::ControlRequest& request,
              std::shared_ptr<Cancellation> withdrawn,
              ControlDone done) override ABSL_LOCKS_EXCLUDED(mu_);

  // Called when rank zero has run a decision, as an execution of `instance`.
  void OnRunEnded(InstanceKey instance, bool went_well)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Stops all decisions, on all ranks. The first reason stays. `by` is the rank
  // that ends by itself and had not received an end before.
  void End(absl::Status reason, DecidedRuns runs,
           std::optional<int> by = std::nullopt) ABSL_LOCKS_EXCLUDED(mu_);

  // True between the first request of any rank and the end.
  bool is_in_use() ABSL_LOCKS_EXCLUDED(mu_);

  // Processes of the other ranks; incarnation 0 if none has sent a request.
  std::vector<ControlCaller> OtherRanks() ABSL_LOCKS_EXCLUDED(mu_);

  // True if the process has sent a request.
  bool HasHeardOf(const ControlCaller& process) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Rank {
    uint64_t process = 0;  // Process of the requests; 0: no request has come.
    uint64_t last_message = 0;
    absl::Status last_status;  // Answer to it.
    uint64_t next_request = 1;
    std::string name_head;
    std::deque<proto::Decision> decisions;  // Unacknowledged.
    uint64_t first_decision = 1;            // Number of decisions.front().
    ControlDone waiting;                    // Callback of its AwaitDecisions.
    uint64_t waiting_id = 0;
  };
  using Answers = std::vector<std::pair<ControlDone, ControlAnswer>>;

  explicit CoordinatorServer(Options options);

  absl::Status Submit(const ControlCaller& caller, int index,
                      const proto::SubmitTensors& message)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Add(const ControlCaller& caller, int index,
                   const proto::SubmitTensors& message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Await(int index, uint64_t after, Cancellation* withdrawn,
             ControlDone done) ABSL_LOCKS_EXCLUDED(mu_);
  void StopWaiting(int index, uint64_t id, const absl::Status& reason)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status CheckAfter(int index, uint64_t after)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status EndFrom(int task, int index, const proto::EndDecisions& message);

  void Decide() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendDecisions(const std::vector<Negotiation::Decision>& decisions)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  ControlAnswer NextAnswer(const Rank& rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Answers TakeAnswers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void ArmAlarm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool DisarmAlarm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnAlarm() ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;
  const CoordinatorRanks members_;
  Mutex mu_;
  bool has_begun_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status end_ ABSL_GUARDED_BY(mu_);
  DecidedRuns runs_at_end_ ABSL_GUARDED_BY(mu_) = DecidedRuns::kFinish;
  Negotiation negotiation_ ABSL_GUARDED_BY(mu_);
  std::vector<Rank> ranks_ ABSL_GUARDED_BY(mu_);
  uint64_t last_waiting_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t num_running_ ABSL_GUARDED_BY(mu_) = 0;
  Clock::AlarmId alarm_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Time rings_at_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();

  // Earliest time of the next report of stalled tensors. Tensors that come due
  // before it are reported together.
  absl::Time next_report_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
};

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_COORDINATOR_SERVER_H_
