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

// Says Hello to all other tasks until each has answered, or another task
// reports it lost. Its calls and alarms keep the object until then.
//
// Thread-safe. Callbacks run with no lock held.
class ClusterJoin : public std::enable_shared_from_this<ClusterJoin> {
 public:
  struct Options {
    ClusterSpec cluster;
    Environment environment;
    std::shared_ptr<ControlChannel> channel;
    proto::Hello hello;
    absl::Time deadline = absl::InfiniteFuture();

    // Ends the join with its reason. May be null.
    std::shared_ptr<Cancellation> cancellation;

    // Gets the tasks that have not answered, in order: at first, and after each
    // change. Changes that come while it runs are reported as one. Calls never
    // overlap, and none comes after `done`. May be null.
    std::function<void(const std::vector<int>& missing)> progress;

    // Handles a task's answer. An error counts as no answer.
    std::function<absl::Status(int task, const proto::HelloReply& reply)> heard;

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
  void SayHello(int task);
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
