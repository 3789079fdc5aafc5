#ifndef TUTTI_RESOLVERS_MEMBERSHIP_CLUSTER_JOIN_H_
#define TUTTI_RESOLVERS_MEMBERSHIP_CLUSTER_JOIN_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "framework/base/callbacks.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"

namespace tutti {

// Says Hello until this task knows a process of each other task, or another
// task reports it lost. Its calls and alarms keep the object until then.
//
// The task that leads says Hello to all. The others say it to the leader, which
// answers once it knows all tasks; while the leader does not answer, also to
// one of the others at a time, which knows whether another task leads. The new
// process of a task that had one before says it to all, too: they know the
// former process.
//
// Thread-safe. Callbacks run with no lock held.
class ClusterJoin : public std::enable_shared_from_this<ClusterJoin> {
 public:
  struct Options {
    ClusterSpec cluster;
    Environment environment;
    std::shared_ptr<ControlChannel> channel;
    proto::Hello hello;
    absl::Duration hold = DefaultTime("hold");  // Of the leader's answer.
    absl::Time deadline = absl::InfiniteFuture();

    // Ends the join with its reason. May be null.
    std::shared_ptr<Cancellation> cancellation;

    // Gets the tasks that have not answered, in order: at first, and after each
    // change. Changes that come while it runs are reported as one. Calls never
    // overlap, and none comes after `done`. May be null.
    std::function<void(const std::vector<int>& missing)> progress;

    // Returns the task that leads, as far as this task knows.
    std::function<absl::StatusOr<int>()> leader;

    // Handles a task's answer, and returns the other tasks of which it names a
    // process. An error counts as no answer.
    std::function<absl::StatusOr<std::vector<int>>(
        int task, const proto::HelloReply& reply)>
        heard;

    // Returns whether the task has called this one. This task may be unable to
    // reach it nevertheless.
    std::function<bool(int task)> has_called;

    // Runs for each task without an answer at the deadline, before `done`. May
    // be null.
    std::function<void(int task, const absl::Status& why)> silent;
  };

  // Starts to join. `done` runs once, with OK, or with one of these errors:
  // DEADLINE_EXCEEDED naming the missing tasks; the error of a task with which
  // this one cannot work together; the reason of the cancellation.
  static void Start(Options options, StatusCallback done);

 private:
  ClusterJoin(Options options, StatusCallback done);

  void Begin() ABSL_LOCKS_EXCLUDED(mu_);
  void WatchCancellation() ABSL_LOCKS_EXCLUDED(mu_);
  std::set<int> OtherTasks() const;
  void SayHelloToLeader() ABSL_LOCKS_EXCLUDED(mu_);
  int NextOther() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Returns true if there are tasks besides this one and the leader.
  bool HasOthers() const { return options_.cluster.num_tasks() > 2; }
  void SayHelloToAll() ABSL_LOCKS_EXCLUDED(mu_);
  void SayHelloAgain(int task) ABSL_LOCKS_EXCLUDED(mu_);
  void SayHello(int task, absl::Duration hold, absl::Time deadline)
      ABSL_LOCKS_EXCLUDED(mu_);
  void OnReply(int task, const ControlAnswer& reply) ABSL_LOCKS_EXCLUDED(mu_);
  void TakeReply(int task, const ControlAnswer& reply) ABSL_LOCKS_EXCLUDED(mu_);
  void OnError(int task, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  void Report() ABSL_LOCKS_EXCLUDED(mu_);
  bool ReportNext() ABSL_LOCKS_EXCLUDED(mu_);
  std::string HintAt(const std::vector<int>& missing) const;
  void EndOverdue() ABSL_LOCKS_EXCLUDED(mu_);
  void OnDeadline() ABSL_LOCKS_EXCLUDED(mu_);
  void End(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;
  const absl::Time began_;
  const std::shared_ptr<Cancellation> over_ = std::make_shared<Cancellation>();
  RunAgain report_;
  Mutex mu_;
  std::set<int> missing_ ABSL_GUARDED_BY(mu_);
  bool says_to_all_ ABSL_GUARDED_BY(mu_) = false;

  int leader_ ABSL_GUARDED_BY(mu_) = -1;  // Leader that was called last.
  bool leader_has_answered_ ABSL_GUARDED_BY(mu_) = false;
  bool leader_is_silent_ ABSL_GUARDED_BY(mu_) = false;  // In the last call.
  int other_ ABSL_GUARDED_BY(mu_) = -1;  // Called last instead of the leader.
  std::string last_error_ ABSL_GUARDED_BY(mu_);
  int num_calls_ ABSL_GUARDED_BY(mu_) = 0;  // Calls under way.
  bool is_due_ ABSL_GUARDED_BY(mu_) = false;
  bool report_again_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  StatusCallback done_ ABSL_GUARDED_BY(mu_);
  Clock::AlarmId alarm_ ABSL_GUARDED_BY(mu_) = 0;
  Cancellation::WatchId watch_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<int, Clock::AlarmId> say_again_ ABSL_GUARDED_BY(mu_);  // By task.
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_MEMBERSHIP_CLUSTER_JOIN_H_
