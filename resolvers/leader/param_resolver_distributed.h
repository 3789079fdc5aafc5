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
#include "resolvers/leader/end_teller.h"
#include "resolvers/leader/given_up_executions.h"
#include "resolvers/leader/leader_client.h"
#include "resolvers/leader/leader_questions.h"
#include "resolvers/leader/leader_service.h"
#include "resolvers/leader/leadership.h"
#include "resolvers/local/param_resolver_local.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"
#include "tutti/selection.h"

namespace tutti {

// The resolver of one task of a cluster. One task leads: the members of all
// tasks ask it, once for each instance; what it settles is remembered here, so
// that later steps send nothing. The task that leads serves the others through
// leader() and is asked by its own members without a message.
//
// A generation of a group ends on all of its tasks: by EndGroup() on any task,
// when a task with members is lost, and when the task that led it is lost. From
// then on what asks for the group joins the next generation.
//
// An execution that a task gives up before its instance is settled is given up
// on all tasks: the one that leads tells them, and remembers it for those that
// come to it late.
class ParamResolverDistributed
    : public ParamResolverInterface,
      public std::enable_shared_from_this<ParamResolverDistributed> {
 public:
  struct Options {
    ClusterSpec cluster;
    Environment environment;

    std::shared_ptr<ControlChannel> channel;

    // Told of all groups of this task.
    std::shared_ptr<GroupDirectory> directory;
    std::shared_ptr<Leadership> leadership;

    // As in ParamResolverLocal; the rules and the costs of the task that leads
    // decide.
    SelectionPolicy policy;
    std::vector<int> ring_order;

    // How much the settled instances of this task's members may take: an entry
    // for each member, and one for each of CollInstanceParams::rows. Those that
    // this task leads may take as much again.
    size_t max_entries = size_t{1} << 19;

    // How many groups and instances, not settled yet, members of other tasks
    // may make this one keep while it leads.
    size_t max_unsettled = 1024;

    // How long to ask a task again that does not know yet that it leads.
    absl::Duration takeover_limit = absl::Seconds(10);

    // Ends an execution of a generation that members of this task know. May be
    // null.
    std::function<void(const ExecKey& execution, const absl::Status& reason)>
        cancel_execution;

    // Why a process is known to be lost; OK if it is not. May be null.
    std::function<absl::Status(const ControlCaller& process)> loss_of;

    // The task may be gone: find out. May be null.
    std::function<void(int task)> suspect;

    // WaitsFor() or WaitsForAny() may be another one. May be null.
    std::function<void()> waits_changed;
  };

  static std::shared_ptr<ParamResolverDistributed> Create(Options options);
  ~ParamResolverDistributed() override;

  // Errors besides those of the interface: UNAVAILABLE if the leader is lost;
  // ABORTED if the group ends meanwhile and no better reason is known;
  // RESOURCE_EXHAUSTED past one of the bounds.
  void CompleteParamsAsync(const DeviceAttributes& device,
                           std::shared_ptr<const CollectiveRequest> request,
                           CallNumber number,
                           std::shared_ptr<Cancellation> cancellation,
                           Done done) override;

  // On all tasks, unless the step has ended there.
  void GiveUp(InstanceId instance, CallNumber number,
              const absl::Status& reason) override;

  // What the leader said when it was asked last.
  std::string DescribeWaiting(const CollectiveRequest& request) override {
    return client_->DescribeWaiting(request);
  }

  // On all tasks. The first reason stays.
  void EndGroup(GroupKey group_key, absl::Status reason) override;

  // Another task says that a generation has ended. One that is over already, or
  // of a group that this task has nothing to do with, is ignored. Errors:
  // INVALID_ARGUMENT; PERMISSION_DENIED for a task that is neither in the group
  // nor its leader.
  absl::Status OnEndGroup(const ControlCaller& caller,
                          const proto::EndGroup& message);

  // The step has ended on all tasks: what waits for it here, and comes later,
  // ends with ABORTED, and other tasks hear nothing more of it. Idempotent.
  void EndStep(int64_t step_id) {
    given_up_->EndStep(step_id);
    leader_service_->EndStep(step_id);
  }

  // Another task has given an execution up; this one tells the others if it
  // leads. Errors: PERMISSION_DENIED as OnEndGroup(); UNAVAILABLE if neither
  // the caller leads nor this task.
  absl::Status OnGivenUp(const ControlCaller& caller, const GivenUp& given_up);

  // A member of the group has ended an execution, in a generation that may have
  // ended, too: members of this task may come to it in a later one. Ignored of
  // a task that may not end the group, as for OnEndGroup().
  void OnCancelled(const ControlCaller& caller, ExecKey execution,
                   const absl::Status& reason);

  // The process is gone, for the reason, which names it; with incarnation 0,
  // whichever its task had. What another one of its task has begun goes on.
  void OnTaskLost(const ControlCaller& process, const absl::Status& reason);

  // The other tasks have gone on without this process: all that waits or runs
  // here ends so, and all that comes.
  void OnRefused(const absl::Status& why);

  // These may not lead, as another task says.
  void OnMayNotLead(const std::vector<int>& tasks);

  // A process of the task has been heard of for the first time: from now on a
  // call that cannot reach it fails, and groups with another one end.
  void OnFound(int task);

  // Other tasks at which calls wait.
  std::vector<int> WaitsFor() { return client_->WaitsFor(); }

  // Whether a group that is led here waits for a member, of whatever task, and
  // no other member can know.
  bool WaitsForAny() { return led_->has_new_groups(); }

  // For the calls of other tasks.
  LeaderService& leader() { return *leader_service_; }

  const ParamResolverLocal& led() const { return *led_; }
  ParamResolverLocal& led() { return *led_; }
  size_t num_waiting() { return client_->num_waiting(); }
  size_t num_entries() { return client_->num_entries(); }

 private:
  explicit ParamResolverDistributed(Options options);
  void Initialize();

  // What was given up.
  bool Note(const GivenUp& given_up);
  void EndGivenUp(const ExecKey& execution, const absl::Status& reason);
  void EndGivenUpIn(const CollGroupParams& group);
  void OnLeaderChanged();

  // Ends.
  void OnLearned(const CollGroupParams& group, int leader);
  void OnGenerationEnded(GroupKey key, uint64_t generation,
                         const absl::Status& reason);
  void EndEverywhere(const CollGroupParams& group, const absl::Status& reason);
  absl::Status CheckMayEnd(const ControlCaller& caller, GroupKey key);
  absl::Status CheckCanEnd(const ControlCaller& caller, GroupKey key,
                           uint64_t generation);
  absl::Status LedByLost(int task) const;
  void EndWhatWasLed(int task, const absl::Status& reason);
  void EndLedBy(const std::vector<int>& tasks, const LeaderQuestion* answered);
  void EndIfLost(const CollGroupParams& group);

  void NotifyWaiting() {
    if (options_.waits_changed != nullptr) options_.waits_changed();
  }

  const Options options_;
  const int this_task_;
  const std::string task_name_;
  const std::shared_ptr<EndTeller> teller_;
  const std::shared_ptr<GivenUpExecutions> given_up_ =
      std::make_shared<GivenUpExecutions>();

  // Set once, by Create().
  std::shared_ptr<ParamResolverLocal> led_;
  std::shared_ptr<LeaderService> leader_service_;
  std::unique_ptr<LeaderClient> client_;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LEADER_PARAM_RESOLVER_DISTRIBUTED_H_
