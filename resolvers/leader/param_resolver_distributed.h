#ifndef TUTTI_RESOLVERS_LEADER_PARAM_RESOLVER_DISTRIBUTED_H_
#define TUTTI_RESOLVERS_LEADER_PARAM_RESOLVER_DISTRIBUTED_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/collective/group_directory.h"
#include "framework/control/control_channel.h"
#include "resolvers/leader/end_reporter.h"
#include "resolvers/leader/given_up_executions.h"
#include "resolvers/leader/leader_client.h"
#include "resolvers/leader/leader_requests.h"
#include "resolvers/leader/leader_service.h"
#include "resolvers/leader/leadership.h"
#include "resolvers/leader/resolver_options.h"
#include "resolvers/local/param_resolver_local.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"
#include "tutti/selection.h"

namespace tutti {

// Resolver of one task of a cluster. One task leads. Members of all tasks send
// it one request for each instance. The resolver remembers the settled params:
// later steps send nothing. The leading task serves the other tasks through
// leader(); its own members need no message.
//
// A generation of a group ends on all of its tasks. Causes: EndGroup() on any
// task, the loss of a task with members, and the loss of the task that led it.
// Later requests for the group join the next generation.
//
// An execution that a task gives up before its instance is settled is given up
// on all tasks. The leader reports it to them, and remembers it for members
// that come late.
class ParamResolverDistributed
    : public ParamResolverInterface,
      public LeaderClient::Owner,
      public std::enable_shared_from_this<ParamResolverDistributed> {
 public:
  using Options = DistributedResolverOptions;

  static std::shared_ptr<ParamResolverDistributed> Create(Options options);
  ~ParamResolverDistributed() override;

  // Errors besides those of the interface: UNAVAILABLE if the leader is lost;
  // ABORTED if the group ends meanwhile and no better reason is known;
  // RESOURCE_EXHAUSTED past one of the bounds.
  void CompleteGroupAsync(const DeviceAttributes& device,
                          const CollectiveRequest& request,
                          std::shared_ptr<Cancellation> cancellation,
                          GroupDone done) override;
  void CompleteInstanceAsync(const DeviceAttributes& device,
                             std::shared_ptr<const CollectiveRequest> request,
                             CallNumber number,
                             std::shared_ptr<Cancellation> cancellation,
                             Done done) override;

  // Gives the execution up on all tasks, except where the step has ended.
  void GiveUp(InstanceId instance, CallNumber number,
              const absl::Status& reason) override;

  // Returns the leader's last answer about its waits.
  std::string DescribeWaiting(const CollectiveRequest& request) override {
    return client_->DescribeWaiting(request);
  }

  // Ends the group on all tasks. The first reason stays.
  void EndGroup(GroupKey group_key, absl::Status reason) override;

  // Handles another task's message that a generation has ended. Ignores a
  // generation that has already ended, and a group that this task has no part
  // in. Errors: INVALID_ARGUMENT; PERMISSION_DENIED for a task that is neither
  // in the group nor its leader.
  absl::Status OnEndGroup(const ControlCaller& caller,
                          const proto::EndGroup& message);

  // Ends the step, which has ended on all tasks: its calls, waiting or later,
  // end with ABORTED. Other tasks hear no more of the step. Idempotent.
  void EndStep(int64_t step_id) {
    given_up_->EndStep(step_id);
    leader_service_->EndStep(step_id);
  }

  // Handles another task's message that it has given up an execution. A leader
  // reports it to the other tasks. Errors: PERMISSION_DENIED as in
  // OnEndGroup(); UNAVAILABLE if neither the caller nor this task leads.
  absl::Status OnGivenUp(const ControlCaller& caller, const GivenUp& given_up);

  // Handles a member's message that it has ended an execution, perhaps in a
  // generation that has ended too, or that this task does not know yet. Members
  // of this task may come to that execution in a later generation. Ignores a
  // task that may not end the group, as in OnEndGroup().
  void OnCancelled(const ControlCaller& caller, ExecKey execution,
                   const absl::Status& reason);

  // Ends everything that involves the process, which is gone; `reason` names
  // it. Incarnation 0: any process of the task. Work with another process of
  // the task goes on.
  void OnTaskLost(const ControlCaller& process, const absl::Status& reason);

  // Ends all waiting, running and later calls with `why`: the other tasks have
  // gone on without this process.
  void OnRefused(const absl::Status& why);

  // Handles another task's message that `tasks` may not lead: marks them lost.
  // Does not repeat `answered`, which its caller repeats; it may be null.
  void OnMayNotLead(const std::vector<int>& tasks,
                    const LeaderRequest* answered) override;

  // Handles the first contact with a process of the task. From now on a call
  // that cannot reach it fails, and groups with another process of the task
  // end.
  void OnFound(int task);

  // Returns the other tasks at which calls wait.
  std::vector<int> WaitsFor() { return client_->WaitsFor(); }

  // Returns true if a group led here waits for a member of any task, and no
  // other member can know.
  bool WaitsForAny() { return led_->has_new_groups(); }

  // Serves the calls of other tasks.
  LeaderService& leader() { return *leader_service_; }

  const ParamResolverLocal& led() const { return *led_; }
  ParamResolverLocal& led() { return *led_; }
  size_t num_waiting() { return client_->num_waiting(); }
  size_t num_entries() { return client_->num_entries(); }

 private:
  explicit ParamResolverDistributed(Options options);
  void Initialize();

  // Given-up executions.
  bool Note(const GivenUp& given_up);
  void EndGivenUp(const ExecKey& execution, const absl::Status& reason);
  void EndGivenUpIn(const CollGroupParams& group);
  void OnLeaderChanged();

  // Ends of groups.
  void OnLearned(const CollGroupParams& group, int leader) override;
  void OnGenerationEnded(GroupKey key, uint64_t generation,
                         const absl::Status& reason);
  void EndEverywhere(const CollGroupParams& group,
                     const absl::Status& reason) override;
  void PassOnEnd(int from, const CollGroupParams& group,
                 const absl::Status& reason);
  absl::Status CheckMayEnd(const ControlCaller& caller, GroupKey key);
  absl::Status CheckCanEnd(const ControlCaller& caller, GroupKey key,
                           uint64_t generation);
  absl::Status LedByLost(int task) const;
  void EndWhatWasLed(int task, const absl::Status& reason);
  void EndIfLost(const CollGroupParams& group);

  const Options options_;
  const int this_task_;
  const std::string task_name_;
  const std::shared_ptr<EndReporter> reporter_;
  const std::shared_ptr<GivenUpExecutions> given_up_ =
      std::make_shared<GivenUpExecutions>();

  // Set once, by Create().
  std::shared_ptr<ParamResolverLocal> led_;
  std::shared_ptr<LeaderService> leader_service_;
  std::unique_ptr<LeaderClient> client_;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LEADER_PARAM_RESOLVER_DISTRIBUTED_H_
