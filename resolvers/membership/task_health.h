#ifndef TUTTI_RESOLVERS_MEMBERSHIP_TASK_HEALTH_H_
#define TUTTI_RESOLVERS_MEMBERSHIP_TASK_HEALTH_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"

namespace tutti {

// Which processes the tasks of a cluster are, and whether they live. To each
// task that matters a heartbeat is always under way: the other side holds it
// back, so that a connection that closes ends it at once.
//
// A task that has answered is lost, too, once a heartbeat to it is refused as
// its own process would not: with UNAUTHENTICATED or PERMISSION_DENIED, or with
// another FAILED_PRECONDITION than that this process counts as lost.
//
// A process that has been lost stays so: it is refused when it comes back, for
// others have gone on without it. Another one may take its place.
//
// Thread-safe. Callbacks run with no lock held.
class TaskHealth : public std::enable_shared_from_this<TaskHealth> {
 public:
  struct Options {
    ClusterSpec cluster;
    Environment environment;
    std::shared_ptr<ControlChannel> channel;
    HealthProfile profile = HealthProfile::Default();

    // Which tasks matter now.
    std::function<std::vector<int>()> watched;

    // A process is gone; its incarnation is 0 if none of its task was ever
    // heard of. The reason is UNAVAILABLE, as in "task 3 (host:port) was lost:
    // connection closed".
    std::function<void(const ControlCaller& process,
                       const absl::Status& reason)>
        lost;

    // The process is lost as it does not answer, neither that it has ended nor
    // that it refuses this one; before `lost`. May be null.
    std::function<void(int task, const absl::Status& reason)> silent;

    // A task says that this very process counts as lost, in its words, which
    // are FAILED_PRECONDITION. The task itself is then lost to this one.
    std::function<void(int task, const absl::Status& why)> refused;

    // A process was heard of for the first time. What is told of one process
    // may overtake what is told of another, also of the same task.
    std::function<void(const ControlCaller& process)> found;
  };

  enum class State { kUnknown, kUp, kLost };

  explicit TaskHealth(Options options);
  ~TaskHealth();

  // Calls this when the tasks that matter are others than before.
  void Update() ABSL_LOCKS_EXCLUDED(mu_);

  // A process calls, or answers. It takes the place of another one of its task,
  // which then is lost. Errors: INVALID_ARGUMENT for no task of the cluster;
  // FAILED_PRECONDITION, saying why and since when, for a process that was
  // lost.
  absl::Status OnHeard(const ControlCaller& process) ABSL_LOCKS_EXCLUDED(mu_);

  // As OnHeard() of a process that answers: from now on it is lost if it cannot
  // be reached. One that has only called may have begun to listen just now,
  // while this task waits before it tries to connect again.
  absl::Status OnAnswered(const ControlCaller& process)
      ABSL_LOCKS_EXCLUDED(mu_);

  // The task may be gone: finds out by one heartbeat.
  void Suspect(int task) ABSL_LOCKS_EXCLUDED(mu_);

  // How the task is; by its number or its name,
  // "/job:worker/replica:0/task:3". Errors: INVALID_ARGUMENT for a name of no
  // task; FAILED_PRECONDITION if the task restarted: another process answers
  // than the one that was heard of; UNAVAILABLE if it is lost or cannot be
  // reached; DEADLINE_EXCEEDED if it does not answer within `limit`.
  void CheckHealth(absl::string_view task, absl::Duration limit,
                   StatusCallback done) ABSL_LOCKS_EXCLUDED(mu_);

  // Whether another task than this one and `task` is up.
  bool HasOthersUp(int task) ABSL_LOCKS_EXCLUDED(mu_);

  State state(int task) ABSL_LOCKS_EXCLUDED(mu_);

  // Why the process is lost, as far as this task knows: it was, its task is, or
  // another process is up in its place. An incarnation of 0 is any.
  absl::Status LossOf(const ControlCaller& process) ABSL_LOCKS_EXCLUDED(mu_);

  // Why the lowest of the tasks that are lost is; OK if none is.
  absl::Status FirstLoss() ABSL_LOCKS_EXCLUDED(mu_);

  // Of the process that is up, or was lost last; 0 if none is known.
  uint64_t incarnation(int task) ABSL_LOCKS_EXCLUDED(mu_);

  // Tasks to which heartbeats are under way.
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
    bool has_answered = false;     // The process that is up.
    absl::Status loss;             // While the task is lost.
    std::deque<LostProcess> lost;  // The last few.
  };

  // A heartbeat that is under way, or will be soon.
  struct Beat {
    bool once = false;         // Until it is answered, watched or not.
    bool suspected = false;    // Since it was sent: it is sent again.
    bool is_under_way = true;  // Or is about to be.
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
  absl::flat_hash_map<int, BeatPtr> beats_ ABSL_GUARDED_BY(mu_);
  bool is_updating_ ABSL_GUARDED_BY(mu_) = false;
  bool update_again_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_MEMBERSHIP_TASK_HEALTH_H_
