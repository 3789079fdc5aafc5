#ifndef TUTTI_RESOLVERS_LEADER_LEADER_POLL_H_
#define TUTTI_RESOLVERS_LEADER_LEADER_POLL_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "resolvers/leader/resolver_options.h"
#include "tutti/cluster_runtime.h"
#include "tutti/collective.h"
#include "tutti/environment.h"

namespace tutti {

// Polls the leader in another task for the members that a call waits for. The
// error of a call that waits too long can then name them. Polls first after 100
// ms, then one second after each answer, as long as calls wait.
//
// Thread-safe. Sends nothing for calls that are answered sooner.
class LeaderPoll : public std::enable_shared_from_this<LeaderPoll> {
 public:
  explicit LeaderPoll(const DistributedResolverOptions& options)
      : cluster_(options.cluster),
        channel_(options.channel),
        clock_(options.environment.clock) {}
  ~LeaderPoll();

  // Begin and end the wait of a call at `leader`. Call both equally often.
  void Begin(InstanceId id, int leader) ABSL_LOCKS_EXCLUDED(mu_);
  void End(InstanceId id) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the leader's last answer, or a note that it has not answered. Empty
  // if no call waits.
  std::string Describe(InstanceId id) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Poll {
    int leader = 0;
    int num_calls = 0;
    absl::Time requested_at;
    absl::Time answered_at;
    std::optional<std::string> text;
    Clock::AlarmId alarm = 0;
    std::shared_ptr<Cancellation> cancellation;
  };
  using PollPtr = std::shared_ptr<Poll>;

  void SchedulePoll(InstanceId id, const PollPtr& poll, absl::Duration delay)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Request(InstanceId id, const PollPtr& poll) ABSL_LOCKS_EXCLUDED(mu_);
  void OnAnswer(InstanceId id, const PollPtr& poll, ControlAnswer answer)
      ABSL_LOCKS_EXCLUDED(mu_);
  bool IsPresent(InstanceId id, const PollPtr& poll) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const ClusterSpec cluster_;
  const std::shared_ptr<ControlChannel> channel_;
  Clock* const clock_;
  Mutex mu_;
  absl::flat_hash_map<InstanceId, PollPtr> polls_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LEADER_LEADER_POLL_H_
