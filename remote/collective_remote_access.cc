#include "remote/collective_remote_access.h"

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/base/ended_steps.h"
#include "framework/base/rank_list.h"
#include "framework/base/status_macros.h"
#include "framework/collective/collective_delegate.h"
#include "framework/control/wire_codec.h"
#include "tutti/params.h"

namespace tutti {
namespace {

TransferChannel::Choice In(const EndScope& scope) {
  return [scope](const BufKey& key) { return scope.Contains(key.exec); };
}

// Checks whether another task may report a failed execution of the group.
// Errors: PERMISSION_DENIED if it has no member in the group.
absl::Status CheckIsInGroup(const ClusterSpec& cluster,
                            const CollGroupParams& group,
                            const ControlCaller& caller) {
  const bool is_in_group =
      absl::c_any_of(group.members, [&](const CollGroupMember& member) {
        const auto task = cluster.TaskOf(member.device.name);
        return task.ok() && *task == caller.task &&
               member.device.incarnation == caller.incarnation;
      });
  if (is_in_group) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      cluster.Label(caller.task), ", incarnation ", caller.incarnation,
      ", is not in group ", group.key, ", generation ", group.generation));
}

}  // namespace

// Transport of one step, made by CollectiveRemoteAccess::ForStep(). Its
// transfers end with it. Reports the executions that have failed here to other
// tasks.
//
// Thread-safe. Sender and Receiver callbacks run as in CollectiveRemoteAccess.
class PerStepCollectiveRemoteAccess final : public PeerAccessInterface {
 public:
  PerStepCollectiveRemoteAccess(std::shared_ptr<CollectiveRemoteAccess> access,
                                int64_t step_id)
      : access_(std::move(access)), step_id_(step_id) {}
  ~PerStepCollectiveRemoteAccess() override {
    access_->EndStep(step_id_, absl::CancelledError(absl::StrCat(
                                   "step ", step_id_, " is over")));
    access_->Remove(*this, step_id_);
  }

  void PostToPeer(const CollGroupMember& /*peer*/, const BufKey& key,
                  const Offer& offer) override {
    access_->rendezvous_.Provide(key, offer);
  }
  void RecvFromPeer(const CollGroupMember& peer, const BufKey& key,
                    const RecvRequest& recv) override {
    access_->Recv(peer, key, recv);
  }

  void CancelExecution(const CollGroupParams& group, const ExecKey& exec,
                       absl::Status reason) override {
    // Ends the group's executions by one sweep: one at a time, each would
    // search all waiting transfers. The end is reported to the group's tasks
    // elsewhere.
    if (group.cancellation->cancelled()) {
      access_->End(EndScope::Of(exec, EndScope::kGroup),
                   group.cancellation->status());
      return;
    }
    const bool is_first = access_->End(EndScope::Of(exec), reason);
    if (!is_first || group.cancellation->cancelled()) return;
    access_->ReportToOthers(group, exec, reason);
  }

  void WatchEnds(EndedCallback ended) override ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    ended_ = std::move(ended);
  }

  // Returns the callback of WatchEnds(), or null.
  EndedCallback ended() const ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return ended_;
  }

  absl::Status StatusOf(const ExecKey& exec) const override {
    return access_->rendezvous_.StatusOf(exec);
  }
  void ForgetExecution(const ExecKey& exec) override {
    access_->rendezvous_.ForgetExecution(exec);
  }
  void StartAbort(absl::Status reason) override {
    access_->End(EndScope::OfStep(step_id_), std::move(reason));
  }

  std::string DescribeWaiting(const CollGroupParams& group,
                              const ExecKey& exec) override {
    const std::string awaited = access_->DescribeWaiting(group, exec);
    CollectiveDelegate* const runs_it = delegate();
    const std::string by_delegate =
        runs_it == nullptr ? "" : runs_it->DescribeWaiting(group, exec);
    if (by_delegate.empty()) return awaited;
    return absl::StrCat(awaited, awaited.empty() ? "" : ", ", "data of ",
                        by_delegate);
  }

  CollectiveDelegate* delegate() override {
    return access_->options_.transport->delegate();
  }
  size_t least_device_bytes() const override {
    return access_->options_.transport->least_device_bytes();
  }

 private:
  const std::shared_ptr<CollectiveRemoteAccess> access_;
  const int64_t step_id_;
  mutable Mutex mu_;
  EndedCallback ended_ ABSL_GUARDED_BY(mu_);
};

std::shared_ptr<CollectiveRemoteAccess> CollectiveRemoteAccess::Create(
    Options options) {
  return std::shared_ptr<CollectiveRemoteAccess>(
      new CollectiveRemoteAccess(std::move(options)));
}

CollectiveRemoteAccess::CollectiveRemoteAccess(Options options)
    : options_(std::move(options)),
      rendezvous_(options_.max_offered_bytes),
      served_({.cluster = options_.cluster,
               .clock = options_.environment.clock,
               .groups = options_.groups,
               .max_waiting = options_.max_waiting_requests,
               .early_lifetime = options_.early_request_lifetime},
              &rendezvous_) {}

CollectiveRemoteAccess::~CollectiveRemoteAccess() = default;

std::unique_ptr<PeerAccessInterface> CollectiveRemoteAccess::ForStep(
    int64_t step_id) {
  auto step = std::make_unique<PerStepCollectiveRemoteAccess>(
      shared_from_this(), step_id);
  MutexLock lock(&mu_);
  steps_[step_id] = step.get();
  return step;
}

void CollectiveRemoteAccess::Remove(const PerStepCollectiveRemoteAccess& step,
                                    int64_t step_id) {
  MutexLock lock(&mu_);
  const auto found = steps_.find(step_id);
  if (found != steps_.end() && found->second == &step) steps_.erase(found);
}

// --- Receiving ---------------------------------------------------------------

void CollectiveRemoteAccess::Recv(const CollGroupMember& peer,
                                  const BufKey& key, const RecvRequest& recv) {
  const auto task = options_.cluster.TaskOf(peer.device.name);
  if (!task.ok()) return recv.receiver->OnDelivery(recv.id, task.status(), {});
  if (*task == options_.cluster.this_task) {
    return rendezvous_.Consume(key, recv);
  }
  absl::Status ended = rendezvous_.StatusOf(key.exec);
  if (!ended.ok()) {
    return recv.receiver->OnDelivery(recv.id, std::move(ended), {});
  }
  const auto self = shared_from_this();  // The delivery may end the step.
  TransferChannel& transfers = options_.transport->transfers();
  transfers.Request(*task, key, recv);
  // An end before the transport had the request has not found it there.
  ended = rendezvous_.StatusOf(key.exec);
  if (!ended.ok()) transfers.Cancel(In(EndScope::Of(key.exec)), ended);
}

size_t CollectiveRemoteAccess::num_receiving() const {
  return options_.transport->transfers()
      .UnderWay([](const BufKey&) { return true; })
      .size();
}

std::set<int> CollectiveRemoteAccess::OtherTasksOf(
    const CollGroupParams& group) const {
  std::set<int> tasks;
  for (const CollGroupMember& member : group.members) {
    const auto task = options_.cluster.TaskOf(member.device.name);
    if (task.ok() && *task != options_.cluster.this_task) tasks.insert(*task);
  }
  return tasks;
}

// Names the senders of this task's receives. If there are none, names the
// receivers that have not requested data: a sender waits too, until they have.
std::string CollectiveRemoteAccess::DescribeWaiting(
    const CollGroupParams& group, const ExecKey& exec) {
  if (OtherTasksOf(group).empty()) return rendezvous_.DescribeWaiting(exec);
  const auto names_of = [&](const std::vector<int>& ranks) {
    return ShortList(ranks.size(), [&](size_t i) {
      const auto& member = group.members[static_cast<size_t>(ranks[i])];
      return absl::StrCat("rank ", ranks[i], " (",
                          member.device.name.ToString(), ")");
    });
  };
  std::set<int> senders;
  for (const BufKey& key :
       options_.transport->transfers().UnderWay(In(EndScope::Of(exec)))) {
    senders.insert(key.from);
  }
  if (!senders.empty()) {
    return absl::StrCat("data of ", names_of({senders.begin(), senders.end()}));
  }
  const std::vector<int> absent = rendezvous_.RanksThatHaveNotRequested(exec);
  if (absent.empty()) return "";
  return absl::StrCat(names_of(absent), " to ask for data");
}

// --- The end of executions and steps -----------------------------------------

bool CollectiveRemoteAccess::End(const EndScope& scope, absl::Status reason) {
  return Report(scope, rendezvous_.End(scope, std::move(reason)));
}

void CollectiveRemoteAccess::EndStep(int64_t step_id) {
  EndStep(step_id, StepHasEndedError(step_id));
}

void CollectiveRemoteAccess::EndStep(int64_t step_id, absl::Status reason) {
  const EndScope scope = EndScope::OfStep(step_id);
  const auto ended = rendezvous_.End(scope, std::move(reason));
  // First: failures that the end causes here are not reported.
  rendezvous_.ForgetReasonOf(step_id);
  Report(scope, ended);
  MutexLock lock(&mu_);
  std::erase_if(ended_executions_, [step_id](const ExecKey& exec) {
    return exec.step == step_id;
  });
}

bool CollectiveRemoteAccess::Report(const EndScope& scope,
                                    const BufRendezvous::Ended& ended) {
  if (!ended.is_first) return false;
  options_.transport->transfers().Cancel(In(scope), ended.reason);
  return BufRendezvous::Report(ended);
}

void CollectiveRemoteAccess::ReportToOthers(const CollGroupParams& group,
                                            const ExecKey& exec,
                                            const absl::Status& reason) {
  proto::ControlRequest request;
  proto::CancelExecution& cancel = *request.mutable_cancel_execution();
  *cancel.mutable_key() = EncodeKey(exec);
  *cancel.mutable_reason() = EncodeError(reason);
  const absl::Time deadline =
      options_.environment.clock->Now() + DefaultTime("end");
  for (const int task : OtherTasksOf(group)) {
    options_.transport->control().Call(task, request, {.deadline = deadline},
                                       [](const ControlAnswer&) {});
  }
}

absl::Status CollectiveRemoteAccess::CancelFromPeer(
    const ControlCaller& caller, const ExecKey& exec,
    const absl::Status& reason) {
  ASSIGN_OR_RETURN(const auto group,
                   options_.groups->Find(exec.group, exec.generation));
  RETURN_IF_ERROR(CheckIsInGroup(options_.cluster, *group, caller));
  const bool is_first = End(EndScope::Of(exec), reason);
  PeerAccessInterface::EndedCallback report_to_step;
  {
    MutexLock lock(&mu_);
    if (is_first) ended_executions_.push_back(exec);
    if (ended_executions_.size() > options_.max_ended) {
      rendezvous_.ForgetExecution(ended_executions_.front());
      ended_executions_.pop_front();
    }
    const auto step = steps_.find(exec.step);
    if (step != steps_.end()) report_to_step = step->second->ended();
  }
  if (report_to_step != nullptr) report_to_step(exec, reason);
  return absl::OkStatus();
}

// --- Serving -----------------------------------------------------------------

void CollectiveRemoteAccess::Serve(std::shared_ptr<ServedRequest> request) {
  served_.Serve(shared_from_this(), request);
}

void CollectiveRemoteAccess::Withdraw(
    const std::shared_ptr<ServedRequest>& request, absl::Status reason) {
  served_.Withdraw(request, reason);
}

void CollectiveRemoteAccess::OnGroupChange(GroupKey group) {
  served_.OnGroupChange(group);
}

}  // namespace tutti
