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
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"

namespace tutti {

// Says Hello to all other tasks until each has answered, or is known to be lost
// by one that has. Its calls and alarms keep it until then.
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

    // Ends it with its reason. May be null.
    std::shared_ptr<Cancellation> cancellation;

    // The tasks that have not answered, in order: at first, and after each
    // change; changes that come while it runs are told as one. One at a time,
    // and never after `done`. May be null.
    std::function<void(const std::vector<int>& missing)> progress;

    // What the task has answered. An error counts as no answer.
    std::function<absl::Status(int task, const proto::HelloReply& reply)> heard;

    // Whether the task has called this one, which may not reach it.
    std::function<bool(int task)> has_called;

    // The deadline has passed, and the task has not answered; before `done`.
    // May be null.
    std::function<void(int task, const absl::Status& why)> silent;
  };

  // `done` runs once, with DEADLINE_EXCEEDED naming the missing tasks, the
  // error of one with which this task cannot work together, or the reason of
  // the cancellation.
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
  Mutex mu_;
  std::set<int> missing_ ABSL_GUARDED_BY(mu_);
  std::string last_error_ ABSL_GUARDED_BY(mu_);
  int num_calls_ ABSL_GUARDED_BY(mu_) = 0;  // Under way.
  bool is_due_ ABSL_GUARDED_BY(mu_) = false;
  bool is_reporting_ ABSL_GUARDED_BY(mu_) = false;
  bool report_again_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  StatusCallback done_ ABSL_GUARDED_BY(mu_);
  Clock::AlarmId alarm_ ABSL_GUARDED_BY(mu_) = 0;
  Cancellation::WatchId watch_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<int, Clock::AlarmId> say_again_ ABSL_GUARDED_BY(mu_);  // By task.
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_MEMBERSHIP_CLUSTER_JOIN_H_
