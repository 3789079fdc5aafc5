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
#include "named_tensors/negotiation.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/named_tensors.h"

namespace tutti {

// What becomes, at the end, of what was decided and has not ended.
enum class DecidedRuns { kFinish, kCancel };

// Rank zero's side of the coordinator: hears what all ranks ask for, decides,
// and answers each rank's AwaitDecisions with what concerns it. A rank is a
// task.
//
// While collectives run, small ones that become ready are gathered, to be run
// together: nothing waits for a time, and nothing waits while nothing runs.
//
// Thread-safe; calls out with no lock held.
class CoordinatorServer
    : public ControlService,
      public std::enable_shared_from_this<CoordinatorServer> {
 public:
  struct Options {
    ClusterSpec cluster;
    Clock* clock = nullptr;  // Outlives the object and its alarms.
    CoordinatorSettings settings;

    // Entries of instances that the tasks may keep, as
    // ParamResolverDistributed::Options::max_entries. Up to a quarter of them
    // is used for collectives at lengths of their own.
    size_t max_entries = size_t{1} << 19;

    // Runs once, when the first rank asks for something. May be null.
    std::function<void()> begun;

    // Runs at most once, when a rank ends at once that has not heard of all
    // that was decided before an end that lets it finish: the others would wait
    // for that rank. May be null.
    std::function<void(const absl::Status& reason)> give_up;
  };

  static std::shared_ptr<CoordinatorServer> Create(Options options);
  ~CoordinatorServer() override;

  // Errors: INVALID_ARGUMENT for a message that says what cannot be;
  // ALREADY_EXISTS and RESOURCE_EXHAUSTED as Negotiation::Add(); ABORTED for an
  // AwaitDecisions in whose place the rank has sent another one.
  void Handle(const ControlCaller& caller, const proto::ControlRequest& request,
              std::shared_ptr<Cancellation> withdrawn,
              ControlDone done) override ABSL_LOCKS_EXCLUDED(mu_);

  // Rank zero has run one of the decisions, as an execution of that instance.
  void OnRunEnded(InstanceKey instance, bool went_well)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Nothing more is decided, on any rank; the first reason stays. `by` is the
  // rank that ends so by itself, having heard of no end before.
  void End(absl::Status reason, DecidedRuns runs,
           std::optional<int> by = std::nullopt) ABSL_LOCKS_EXCLUDED(mu_);

  // Whether somebody has asked for something, and it has not ended.
  bool is_in_use() ABSL_LOCKS_EXCLUDED(mu_);

  // Whether the process has asked for something.
  bool HasHeardOf(const ControlCaller& process) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Rank {
    uint64_t process = 0;  // Whose requests they are; 0: none has come.
    uint64_t last_message = 0;
    uint64_t next_request = 1;
    std::string name_head;
    std::deque<proto::Decision> decisions;  // Not known to have arrived.
    uint64_t first_decision = 1;            // Number of the first of them.
    ControlDone waiting;                    // Its AwaitDecisions.
    uint64_t waiting_id = 0;
  };
  using Answers = std::vector<std::pair<ControlDone, ControlAnswer>>;

  explicit CoordinatorServer(Options options);

  absl::Status Submit(const ControlCaller& caller,
                      const proto::SubmitTensors& message)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Add(const ControlCaller& caller,
                   const proto::SubmitTensors& message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Await(int task, uint64_t after, Cancellation* withdrawn,
             ControlDone done) ABSL_LOCKS_EXCLUDED(mu_);
  void StopWaiting(int task, uint64_t id, const absl::Status& reason)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status CheckAfter(int task, uint64_t after)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status EndFrom(int task, const proto::EndDecisions& message);

  void Decide() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Tell(const std::vector<Negotiation::Decision>& decisions)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  ControlAnswer NextAnswer(const Rank& rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Answers TakeAnswers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void ArmAlarm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool DisarmAlarm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnAlarm() ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;
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

  // Nothing that stalls is reported before, so that more is together.
  absl::Time next_report_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
};

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_COORDINATOR_SERVER_H_
