#include "tests/cluster/tasks_in_process.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "framework/base/mutex.h"
#include "framework/collective/group_resources.h"
#include "framework/peer/buf_rendezvous.h"
#include "resolvers/local/device_resolver_local.h"
#include "resolvers/local/group_builder.h"
#include "resolvers/local/step_sequence_local.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"

namespace tutti {
namespace {

// Resolver of one task: passes on the leader's answers, with the task's own
// members and resources.
class TaskResolver : public ParamResolverInterface {
 public:
  TaskResolver(std::shared_ptr<ParamResolverLocal> leader,
               std::string task_name)
      : leader_(std::move(leader)), task_name_(std::move(task_name)) {}

  void CompleteGroupAsync(const DeviceAttributes& device,
                          const CollectiveRequest& request,
                          std::shared_ptr<Cancellation> cancellation,
                          GroupDone done) override {
    leader_->CompleteGroupAsync(
        device, request, std::move(cancellation),
        [this, done = std::move(done)](
            absl::StatusOr<std::shared_ptr<const CollGroupParams>>
                group) mutable {
          if (group.ok()) group = GroupOfTask(**group);
          std::move(done)(std::move(group));
        });
  }
  void CompleteInstanceAsync(const DeviceAttributes& device,
                             std::shared_ptr<const CollectiveRequest> request,
                             CallNumber number,
                             std::shared_ptr<Cancellation> cancellation,
                             Done done) override {
    leader_->CompleteInstanceAsync(
        device, std::move(request), number, std::move(cancellation),
        [this, done = std::move(done)](
            absl::StatusOr<std::shared_ptr<const CollectiveParams>>
                params) mutable {
          if (params.ok()) params = OfTask(**params);
          std::move(done)(std::move(params));
        });
  }
  std::string DescribeWaiting(const CollectiveRequest& request) override {
    return leader_->DescribeWaiting(request);
  }
  void EndGroup(GroupKey group_key, absl::Status reason) override {
    leader_->EndGroup(group_key, std::move(reason));
  }

 private:
  std::shared_ptr<const CollectiveParams> OfTask(
      const CollectiveParams& params) {
    auto mine = std::make_shared<CollectiveParams>(params);
    mine->group = GroupOfTask(*params.group);
    mine->task = std::make_shared<const CollTaskParams>(
        MembersOfTask(*mine->group, task_name_));
    return mine;
  }

  std::shared_ptr<const CollGroupParams> GroupOfTask(
      const CollGroupParams& params) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    std::weak_ptr<const CollGroupParams>& known = groups_[params.generation];
    std::shared_ptr<const CollGroupParams> group = known.lock();
    if (group != nullptr) return group;
    auto added = std::make_shared<CollGroupParams>(params);
    added->resources = std::make_shared<GroupResources>();
    known = added;
    return added;
  }

  const std::shared_ptr<ParamResolverLocal> leader_;
  const std::string task_name_;
  Mutex mu_;
  std::map<uint64_t, std::weak_ptr<const CollGroupParams>> groups_
      ABSL_GUARDED_BY(mu_);
};

using EndedCallback = PeerAccessInterface::EndedCallback;

}  // namespace

// Data of a step that its tasks share.
class StepOfAllTasks {
 public:
  BufRendezvous& transfers() { return transfers_; }

  void AddTask(const PeerAccessInterface* peers, EndedCallback ended)
      ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    tasks_[peers] = std::move(ended);
  }
  void RemoveTask(const PeerAccessInterface* peers) ABSL_LOCKS_EXCLUDED(mu_) {
    EndedCallback removed;  // Destroyed after the lock is released.
    MutexLock lock(&mu_);
    removed = std::exchange(tasks_[peers], nullptr);
    tasks_.erase(peers);
  }

  void Cancel(const ExecKey& exec, const absl::Status& reason,
              const PeerAccessInterface* by) ABSL_LOCKS_EXCLUDED(mu_) {
    if (!transfers_.CancelExecution(exec, reason)) return;
    std::map<const PeerAccessInterface*, EndedCallback> tasks;
    {
      MutexLock lock(&mu_);
      tasks = tasks_;
    }
    for (const auto& [task, ended] : tasks) {
      if (task != by) ended(exec, reason);
    }
  }

 private:
  BufRendezvous transfers_;
  Mutex mu_;
  std::map<const PeerAccessInterface*, EndedCallback> tasks_
      ABSL_GUARDED_BY(mu_);
};

// Transfers between members of any tasks.
class SharedPeers : public PeerAccessInterface {
 public:
  explicit SharedPeers(std::shared_ptr<StepOfAllTasks> step)
      : step_(std::move(step)) {}
  ~SharedPeers() override { step_->RemoveTask(this); }

  void PostToPeer(const CollGroupMember& /*peer*/, const BufKey& key,
                  const Offer& offer) override {
    step_->transfers().Provide(key, offer);
  }
  void RecvFromPeer(const CollGroupMember& /*peer*/, const BufKey& key,
                    const RecvRequest& recv) override {
    step_->transfers().Consume(key, recv);
  }
  void CancelExecution(const CollGroupParams& /*group*/, const ExecKey& exec,
                       absl::Status reason) override {
    step_->Cancel(exec, reason, this);
  }
  void WatchEnds(EndedCallback ended) override {
    step_->AddTask(this, std::move(ended));
  }
  absl::Status StatusOf(const ExecKey& exec) const override {
    return step_->transfers().StatusOf(exec);
  }
  // Does nothing, since other tasks may not know of the end yet.
  void ForgetExecution(const ExecKey& /*exec*/) override {}
  void StartAbort(absl::Status reason) override {
    step_->transfers().StartAbort(std::move(reason));
  }
  std::string DescribeWaiting(const CollGroupParams& /*group*/,
                              const ExecKey& exec) override {
    return step_->transfers().DescribeWaiting(exec);
  }

 private:
  const std::shared_ptr<StepOfAllTasks> step_;
};

// Steps by number; a step lives as long as one of its executors.
class TasksInProcess::Steps {
 public:
  std::shared_ptr<StepOfAllTasks> Of(int64_t number) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    std::weak_ptr<StepOfAllTasks>& known = steps_[number];
    std::shared_ptr<StepOfAllTasks> step = known.lock();
    if (step == nullptr) known = step = std::make_shared<StepOfAllTasks>();
    return step;
  }

 private:
  Mutex mu_;
  std::map<int64_t, std::weak_ptr<StepOfAllTasks>> steps_ ABSL_GUARDED_BY(mu_);
};

TasksInProcess::TasksInProcess()
    : leader_(ParamResolverLocal::Create({})),
      steps_(std::make_shared<Steps>()) {}

absl::StatusOr<std::unique_ptr<CollectiveExecutorMgr>>
TasksInProcess::NewExecutors(const Environment& environment,
                             const DeviceManager* devices) {
  const std::string name = devices->devices()[0]->attributes().name.TaskName();
  return CollectiveExecutorMgr::Create(
      {.environment = environment,
       .devices = devices,
       .param_resolver = std::make_shared<TaskResolver>(leader_, name),
       .device_resolver = std::make_shared<DeviceResolverLocal>(devices),
       .step_sequence = std::make_shared<StepSequenceLocal>(environment.random),
       .make_peer_access = [steps = steps_](int64_t step) {
         return std::make_unique<SharedPeers>(steps->Of(step));
       }});
}

void TasksInProcess::EndGroup(GroupKey group, absl::Status reason) {
  leader_->EndGroup(group, std::move(reason));
}

void TasksInProcess::EndAll(const absl::Status& reason) {
  leader_->EndAll(reason);
}

}  // namespace tutti
