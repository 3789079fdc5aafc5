#ifndef TUTTI_RESOLVERS_MEMBERSHIP_TASK_HEALTH_H_
#define TUTTI_RESOLVERS_MEMBERSHIP_TASK_HEALTH_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/base/callbacks.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"

namespace tutti {

// Health of a cluster's tasks: the process of each task, and whether it lives.
// A heartbeat is always under way to each watched task. The other side delays
// its answer, so that the end of its process ends the heartbeat at once. The
// channel repeats a heartbeat whose connection breaks: a connection is no
// process.
//
// Some refusals of a heartbeat show that a task that has answered before is
// lost: its process would not refuse in this way. These are UNAUTHENTICATED,
// PERMISSION_DENIED, and any FAILED_PRECONDITION except that this process
// counts as lost.
//
// A lost process stays lost. If it comes back, it is refused, because other
// tasks have gone on without it. Another process may take its place.
//
// Thread-safe. Callbacks run with no lock held.
class TaskHealth : public std::enable_shared_from_this<TaskHealth> {
 public:
  struct Options {
    ClusterSpec cluster;
    Environment environment;
    std::shared_ptr<ControlChannel> channel;
    HealthProfile profile = HealthProfile::Default();

    // Returns the tasks to watch now.
    std::function<std::vector<int>()> watched;

    // Reports the loss of a process; its incarnation is 0 if no process of the
    // task was ever known. The reason is UNAVAILABLE, for example "task 3
    // (host:port) was lost: connection closed".
    std::function<void(const ControlCaller& process,
                       const absl::Status& reason)>
        lost;

    // Reports, before `lost`, a process that is lost because it does not answer
    // at all: neither that it has ended nor that it refuses this process. May
    // be null.
    std::function<void(int task, const absl::Status& reason)> silent;

    // Reports that a task refuses this process as lost; `why` has the task's
    // message and is FAILED_PRECONDITION. The task is then lost to this
    // process.
    std::function<void(int task, const absl::Status& why)> refused;

    // Reports the first contact with a process. Reports about different
    // processes may overtake each other, also within one task.
    std::function<void(const ControlCaller& process)> found;
  };

  enum class State { kUnknown, kUp, kLost };

  explicit TaskHealth(Options options);
  ~TaskHealth();

  // Updates the heartbeats. Call when `watched` returns other tasks than
  // before.
  void Update() ABSL_LOCKS_EXCLUDED(mu_);

  // Handles a call or an answer of a process. The process replaces a former
  // process of its task, which is then lost. Errors: INVALID_ARGUMENT if the
  // cluster has no such task; FAILED_PRECONDITION, saying why and since when,
  // for a process that was lost.
  absl::Status OnHeard(const ControlCaller& process) ABSL_LOCKS_EXCLUDED(mu_);

  // Handles an answer like OnHeard(). From now on the process is lost if it
  // cannot be reached. A process that has only called may have begun to listen
  // just now. This task may still wait before it connects again.
  absl::Status OnAnswered(const ControlCaller& process)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Handles another task's word that it knows the process. Returns false if
  // this task knows another process, or that this one was lost.
  bool OnTold(const ControlCaller& process) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns true if another process of the task was known before the present
  // one.
  bool HasReplaced(int task) ABSL_LOCKS_EXCLUDED(mu_);

  bool IsUp(const ControlCaller& process) ABSL_LOCKS_EXCLUDED(mu_);

  // Checks with one heartbeat whether the task is gone.
  void Suspect(int task) ABSL_LOCKS_EXCLUDED(mu_);

  // Checks a task, given by its number or its name,
  // "/job:worker/replica:0/task:3". Errors: INVALID_ARGUMENT for an unknown
  // name; FAILED_PRECONDITION if the task restarted, that is, another process
  // answers than the known one; UNAVAILABLE if the task is lost or cannot be
  // reached; DEADLINE_EXCEEDED if it does not answer within `limit`.
  void CheckHealth(absl::string_view task, absl::Duration limit,
                   StatusCallback done) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns true if another task than this one and `task` is up.
  bool HasOthersUp(int task) ABSL_LOCKS_EXCLUDED(mu_);

  State state(int task) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns why the process is lost, as far as this task knows: the process was
  // lost, its task is lost, or another process is up in its place. OK if it is
  // not lost. Incarnation 0 matches any process.
  absl::Status LossOf(const ControlCaller& process) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns why the lowest lost task is lost; OK if no task is lost.
  absl::Status FirstLoss() ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the incarnation of the process that is up, or was lost last; 0 if
  // none is known.
  uint64_t incarnation(int task) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the number of tasks with a heartbeat under way.
  size_t num_watched() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct LostProcess {
    uint64_t incarnation = 0;
    absl::Time since;
    absl::Status reason;
  };
  struct Task {
    State state = State::kUnknown;
    uint64_t incarnation = 0;
    bool has_answered = false;     // Refers to the process that is up.
    absl::Status loss;             // Set while the task is lost.
    std::deque<LostProcess> lost;  // Newest kMaxLostProcesses.
  };

  // Heartbeat that is under way, or will be soon.
  struct Beat {
    bool once = false;         // Ends with its answer, watched or not.
    bool suspected = false;    // Suspect() came after the send: send again.
    bool is_under_way = true;  // Sent, or about to be.
    absl::Time sent_at;
    absl::Time silent_at;
    Clock::AlarmId alarm = 0;
    std::shared_ptr<Cancellation> cancellation =
        std::make_shared<Cancellation>();
  };
  using BeatPtr = std::shared_ptr<Beat>;

  void ApplyWatched(const std::vector<int>& tasks) ABSL_LOCKS_EXCLUDED(mu_);
  BeatPtr AddBeat(int task, bool once) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Send(int task, const BeatPtr& beat) ABSL_LOCKS_EXCLUDED(mu_);
  void OnReply(int task, const BeatPtr& beat, const ControlAnswer& reply)
      ABSL_LOCKS_EXCLUDED(mu_);
  void OnRefused(int task, const BeatPtr& beat, const absl::Status& why)
      ABSL_LOCKS_EXCLUDED(mu_);
  void BeatAgain(int task, const BeatPtr& beat) ABSL_LOCKS_EXCLUDED(mu_);
  void OnSilence(int task, const BeatPtr& beat) ABSL_LOCKS_EXCLUDED(mu_);
  void ArmSilence(int task, const BeatPtr& beat)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Lose(int task, const BeatPtr& beat, absl::string_view why,
            bool is_silent = false) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status MarkLost(int task, absl::string_view why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  BeatPtr RemoveBeat(int task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsPresent(int task, const BeatPtr& beat) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<int> FindTask(absl::string_view name) const;
  absl::Status Judge(int task, const ControlAnswer& reply)
      ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;
  Mutex mu_;
  std::vector<Task> tasks_ ABSL_GUARDED_BY(mu_);
  std::set<int> lost_ ABSL_GUARDED_BY(mu_);  // Tasks in State::kLost.
  absl::flat_hash_map<int, BeatPtr> beats_ ABSL_GUARDED_BY(mu_);
  RunAgain update_;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_MEMBERSHIP_TASK_HEALTH_H_
