#ifndef TUTTI_RESOLVERS_LEADER_LEADER_CLIENT_H_
#define TUTTI_RESOLVERS_LEADER_LEADER_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "resolvers/leader/end_reporter.h"
#include "resolvers/leader/given_up_executions.h"
#include "resolvers/leader/group_learner.h"
#include "resolvers/leader/leader_poll.h"
#include "resolvers/leader/leader_requests.h"
#include "resolvers/leader/resolver_options.h"
#include "resolvers/leader/settled_groups.h"
#include "resolvers/local/param_resolver_local.h"
#include "resolvers/local/waiting_calls.h"
#include "tutti/cluster_runtime.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"

namespace tutti {

// Members' side of the calls that LeaderService answers. Sends the requests of
// this task's members to the leader, again if another task leads, and remembers
// the settled params. If this task leads, the request needs no message.
//
// A request is repeated until it is answered, cancelled, or ended here. It has
// a deadline, `takeover_limit`, only while the leader cannot answer. Requests
// of a device for the same instance share the first answer that comes.
//
// Thread-safe. Part of an owner, which it keeps alive while it handles an
// answer. Callbacks run with no lock held. Errors: those that
// ParamResolverDistributed documents for its calls.
class LeaderClient {
 public:
  using Done = ParamResolverInterface::Done;

  using Owner = LeaderClientOwner;

  // Other parts of the owner.
  struct Parts {
    std::shared_ptr<ParamResolverLocal> led;  // Used where this task leads.
    std::shared_ptr<EndReporter> reporter;
    std::shared_ptr<GivenUpExecutions> given_up;  // Their calls end at once.
  };

  // Creates a part of `owner`, which `keeps_owner` keeps.
  LeaderClient(DistributedResolverOptions options, Parts parts, Owner* owner,
               const std::shared_ptr<const void>& keeps_owner);

  // Same as CompleteInstanceAsync() of ParamResolverDistributed. Without a
  // number, same as CompleteGroupAsync(): answers with params without an
  // instance.
  void Request(const DeviceAttributes& device,
               std::shared_ptr<const CollectiveRequest> request,
               std::optional<CallNumber> number,
               std::shared_ptr<Cancellation> cancellation, Done done)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the leader's last answer about its waits. For a call that is just
  // ending with an error, returns that error: its deadline may pass at that
  // moment.
  std::string DescribeWaiting(const CollectiveRequest& request)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the other tasks at which calls wait.
  std::vector<int> WaitsFor() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return questions_.RequestedTasks();
  }

  // Returns whether a call waits for the group.
  bool IsAwaited(GroupKey key) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the living generation, if it has been settled for a member of this
  // task; else null.
  std::shared_ptr<const CollGroupParams> FindGroup(GroupKey key)
      ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    const auto group = settled_.Find(key);
    return group == nullptr ? nullptr : group->params;
  }

  // Returns true if `group` is that generation, and `leader` has settled it.
  bool WasSettledBy(int leader, const CollGroupParams& group)
      ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return settled_.WasSettledBy(leader, group);
  }

  // Ends the calls of the execution.
  void EndExecution(const ExecKey& execution, const absl::Status& reason)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Forgets the settled generation, and ends the calls of members that live in
  // it.
  void EndGeneration(GroupKey key, uint64_t generation,
                     const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

  // Marks the group to be formed again, by any leader. Returns a failed
  // generation only once.
  using Former = SettledGroups::Former;
  Former BeginAgain(GroupKey key) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return settled_.BeginAgain(key);
  }

  // Ends the calls that wait for the group. If the group is settled for them at
  // this moment, ends the group too. The first reason stays.
  void EndAwaited(GroupKey key, const absl::Status& reason)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Ends all calls for a cause that all tasks hear of: sends no message.
  void EndAll(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends all later calls with `why`. Returns false if it did so before.
  bool Refuse(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mu_);

  // Handles the requests sent to a task that is lost or may not lead, except
  // `answered`, which may be null. Repeats a request if its group is to be
  // formed again, and otherwise ends it with `reason`.
  void OnLeaderGone(int leader, const absl::Status& reason,
                    const LeaderRequest* answered) ABSL_LOCKS_EXCLUDED(mu_);

  // Notes contact with the task: until it is lost, a call that cannot reach it
  // fails.
  void OnReached(int task) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    reached_.insert(task);
  }
  void OnLost(int task) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    reached_.erase(task);
  }

  size_t num_waiting() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return questions_.size();
  }
  size_t num_entries() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return settled_.num_entries();
  }

 private:
  using Answer = GroupLearner::Answer;

  // Calls.
  absl::Status CheckRoom(const LeaderRequest& question) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsPresent(const LeaderRequest& question, int attempt)
      ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<LeaderRequestPtr> QuestionsWhere(
      absl::FunctionRef<bool(const LeaderRequest&)> matches)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Finish(const LeaderRequestPtr& question, Answer answer)
      ABSL_LOCKS_EXCLUDED(mu_);
  void FinishWhere(absl::FunctionRef<bool(const LeaderRequest&)> matches,
                   const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);
  void FinishAllOf(const LeaderRequest& question,
                   const SettledGroups::Member& settled)
      ABSL_LOCKS_EXCLUDED(mu_);
  void StopSending(const LeaderRequestPtr& question, bool was_polled,
                   const absl::Status& reason);

  // Requests.
  void Request(const LeaderRequestPtr& question) ABSL_LOCKS_EXCLUDED(mu_);
  LeaderAttempt BeginAttempt(LeaderRequest& question, int leader,
                             uint64_t ended_generation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RequestHere(const LeaderRequestPtr& question,
                   const LeaderAttempt& attempt) ABSL_LOCKS_EXCLUDED(mu_);
  void SendRequest(const LeaderRequestPtr& question,
                   const LeaderAttempt& attempt);
  void RequestAgainSoon(const LeaderRequestPtr& question,
                        const absl::Status& if_too_late)
      ABSL_LOCKS_EXCLUDED(mu_);
  void ReportEnd(GroupKey key, const std::vector<LeaderRequestPtr>& questions,
                 int leader, absl::Time give_up) ABSL_LOCKS_EXCLUDED(mu_);

  // Answers.
  void OnAnswer(const LeaderRequestPtr& question, const LeaderAnswer& answer);
  void OnReply(const LeaderRequestPtr& question, int attempt, int leader,
               const ControlAnswer& reply);
  void OnNotLeader(const LeaderRequestPtr& question, int requested,
                   const proto::NotLeader& message);
  void RequestAgainOrEnd(const LeaderRequestPtr& question,
                         const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);
  void OnFailure(const LeaderRequestPtr& question, uint64_t generation,
                 const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

  void NotifyWaiting() {
    if (options_.waits_changed != nullptr) options_.waits_changed();
  }

  const DistributedResolverOptions options_;
  const Parts parts_;
  Owner& owner_;
  const int this_task_;
  const std::string task_name_;
  const std::shared_ptr<LeaderPoll> poll_;

  // Keeps the owner while a callback runs.
  const std::weak_ptr<LeaderClient> weak_self_;

  Mutex mu_;
  SettledGroups settled_ ABSL_GUARDED_BY(mu_);
  LeaderRequests questions_ ABSL_GUARDED_BY(mu_);

  EndingCalls ending_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_set<int> reached_ ABSL_GUARDED_BY(mu_);
  absl::Status refused_ ABSL_GUARDED_BY(mu_);
  GroupLearner learner_;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LEADER_LEADER_CLIENT_H_
