#ifndef TUTTI_RESOLVERS_MEMBERSHIP_CLUSTER_CONTROL_H_
#define TUTTI_RESOLVERS_MEMBERSHIP_CLUSTER_CONTROL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/base/callbacks.h"
#include "framework/collective/group_directory.h"
#include "framework/control/control_channel.h"
#include "resolvers/leader/leadership.h"
#include "resolvers/leader/param_resolver_distributed.h"
#include "resolvers/membership/cluster_leave.h"
#include "resolvers/membership/device_resolver_distributed.h"
#include "resolvers/membership/group_watch.h"
#include "resolvers/membership/held_answers.h"
#include "resolvers/membership/step_sequence_distributed.h"
#include "resolvers/membership/task_health.h"
#include "tutti/cluster_runtime.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/peer_access.h"
#include "tutti/selection.h"

namespace tutti {

// Part of one task in its cluster: makes and connects the distributed resolvers
// and the health, and answers the calls of the other tasks.
//
// Thread-safe. A delayed answer blocks no thread.
class ClusterControl : public ControlService,
                       public std::enable_shared_from_this<ClusterControl> {
 public:
  struct Options {
    ClusterSpec cluster;
    Environment environment;

    // Create() sets the directory's listener.
    std::shared_ptr<ControlChannel> channel;
    std::shared_ptr<GroupDirectory> directory;
    std::shared_ptr<const DeviceManager> devices;

    // Incarnation of this process and of all its devices.
    uint64_t incarnation = 0;

    HealthProfile health = HealthProfile::Default();

    // Same as in ParamResolverDistributed::Options.
    SelectionPolicy policy;
    size_t max_entries = size_t{1} << 19;

    // Handle other requests of other tasks; UNIMPLEMENTED where null.
    // `cancel_execution` returns NOT_FOUND for a group that is not known yet.
    std::function<absl::Status(const ControlCaller&, const ExecKey& execution,
                               const absl::Status& reason)>
        cancel_execution;
    std::function<void(int64_t step_id)> cleanup_step;

    // Answers the ranks' requests by names of tensors. May be null.
    std::shared_ptr<ControlService> named_tensors;

    // Returns tasks to watch besides those that collectives need.
    // health().Update() calls it again. May be null.
    std::function<std::vector<int>()> also_watched;

    // Run, with no lock held, after this object has acted. May be null.
    std::function<void(const ControlCaller& process,
                       const absl::Status& reason)>
        task_lost;

    // Same as TaskHealth::Options::silent. Runs also for a task that never
    // answered Join().
    std::function<void(int task, const absl::Status& reason)> task_silent;
    GroupDirectory::Listener group_changed;
  };

  static std::shared_ptr<ClusterControl> Create(Options options);

  // Says Hello until each other task is known. `progress` gets the tasks that
  // are not known, at first and after each change. Errors:
  // DEADLINE_EXCEEDED naming these tasks; the error with which a task refuses
  // this one; the reason of End().
  void Join(absl::Time deadline,
            std::function<void(const std::vector<int>& missing)> progress,
            StatusCallback done);

  // Ends this task's part: waits until all living tasks are done. Same as
  // ClusterLeave::Leave().
  void Leave(absl::Time deadline, StatusCallback done) {
    const auto leave = leave_;  // `done` may destroy this object.
    leave->Leave(deadline, std::move(done));
  }

  // Ends every Join() and Leave() with `reason`, now or later.
  void End(const absl::Status& reason);

  // Errors: FAILED_PRECONDITION for a process that was lost; INVALID_ARGUMENT
  // for an invalid message; the errors of the requested action.
  void Handle(const ControlCaller& caller, const proto::ControlRequest& request,
              std::shared_ptr<Cancellation> withdrawn,
              ControlDone done) override;

  const std::shared_ptr<ParamResolverDistributed>& param_resolver() const {
    return param_resolver_;
  }
  const std::shared_ptr<DeviceResolverDistributed>& device_resolver() const {
    return device_resolver_;
  }
  const std::shared_ptr<StepSequenceDistributed>& step_sequence() const {
    return step_sequence_;
  }
  TaskHealth& health() { return *health_; }
  const Leadership& leadership() const { return *leadership_; }

 private:
  explicit ClusterControl(Options options);
  void Initialize();
  void MakeHealth();
  void MakeResolvers();

  std::vector<int> WatchedTasks() const;
  void OnRefused(int task, const absl::Status& why);
  void OnTaskLost(const ControlCaller& process, const absl::Status& reason);
  void OnFound(const ControlCaller& process);
  void CountDevicesLeft();
  void CountDevicesLeftOnce();
  void OnGroupChanged(GroupKey key, uint64_t generation);
  proto::Hello OwnHello() const;
  absl::StatusOr<std::vector<int>> OnHelloReply(int task,
                                                const proto::HelloReply& reply);
  void SetDevices(const ControlCaller& owner,
                  std::vector<DeviceAttributes> devices);
  void AnswerHello(const ControlCaller& caller, const proto::Hello& message,
                   const std::shared_ptr<Cancellation>& withdrawn,
                   ControlDone done);
  ControlAnswer HelloReply(const ControlCaller& caller, bool with_others) const;
  std::function<void(const ExecKey&, const absl::Status&)> OwnCancelExecution()
      const;
  absl::Status RunsNothing() const;
  absl::Status CleanupStep(int64_t step_id);
  absl::Status CancelExecution(const ControlCaller& caller,
                               const proto::CancelExecution& message);
  ControlAnswer AnswerNow(const ControlCaller& caller,
                          const proto::ControlRequest& request);

  const Options options_;
  const std::shared_ptr<Cancellation> end_ = std::make_shared<Cancellation>();
  RunAgain count_;
  std::shared_ptr<Leadership> leadership_;
  std::unique_ptr<GroupWatch> group_watch_;
  std::shared_ptr<TaskHealth> health_;
  std::shared_ptr<ClusterLeave> leave_;
  std::shared_ptr<HeldAnswers> heartbeats_;
  std::shared_ptr<HeldAnswers> hellos_;
  std::atomic<bool> knows_all_{false};  // Devices of all that are not lost.
  std::shared_ptr<ParamResolverDistributed> param_resolver_;
  std::shared_ptr<DeviceResolverDistributed> device_resolver_;
  std::shared_ptr<StepSequenceDistributed> step_sequence_;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_MEMBERSHIP_CLUSTER_CONTROL_H_
