#include "remote/collective_remote_access.h"

#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/base/ended_steps.h"
#include "framework/base/rank_list.h"
#include "framework/base/status_macros.h"
#include "framework/control/wire_codec.h"
#include "remote/caller_check.h"
#include "remote/per_step_collective_remote_access.h"
#include "tutti/params.h"

namespace tutti {
namespace {

// Return the lowest key of the execution, the group, or the step.
BufKey FirstOf(const ExecKey& exec) {
  constexpr int32_t kLeast = std::numeric_limits<int32_t>::min();
  return {exec, kLeast, kLeast, kLeast};
}
BufKey FirstOf(const BufRendezvous::GroupInStep& group) {
  return FirstOf(ExecKey{.generation = group.generation,
                         .step = group.step,
                         .group = group.group,
                         .instance = std::numeric_limits<int64_t>::min()});
}
BufKey FirstOf(int64_t step) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  return FirstOf(ExecKey{.step = step, .group = kLeast, .instance = kLeast});
}

}  // namespace

// Request of this task to another one. Stays in `receives_` until its receiver
// gets the delivery.
class CollectiveRemoteAccess::Receive
    : public Receiver,
      public std::enable_shared_from_this<Receive> {
 public:
  Receive(std::shared_ptr<CollectiveRemoteAccess> access, int task,
          const BufKey& key, const RecvRequest& recv)
      : task(task), key(key), recv(recv), access_(std::move(access)) {}

  absl::Status OnPart(int32_t /*id*/, size_t offset,
                      absl::Span<const std::byte> part) override {
    return recv.receiver->OnPart(recv.id, offset, part);
  }
  std::shared_ptr<DeviceLanding> Land(int32_t /*id*/,
                                      size_t num_bytes) override {
    return recv.receiver->Land(recv.id, num_bytes);
  }
  absl::Status OnLanded(int32_t /*id*/, size_t offset,
                        std::shared_ptr<DeviceLanding> part) override {
    return recv.receiver->OnLanded(recv.id, offset, std::move(part));
  }
  void OnDelivery(int32_t /*id*/, absl::Status status,
                  Delivery delivery) override {
    const auto self = access_->RemoveReceive(*this);
    recv.receiver->OnDelivery(recv.id, std::move(status), delivery);
  }

  const int task;
  const BufKey key;
  const RecvRequest recv;

  // Written under the access's mutex before the delivery; `ended` is written
  // once. A thread that has seen it set may read it without the mutex.
  bool is_requested = false;
  std::optional<absl::Status> ended;

 private:
  const std::shared_ptr<CollectiveRemoteAccess> access_;
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
               .early_lifetime = options_.early_ask_lifetime},
              &rendezvous_),
      early_cancels_(options_.max_early_cancels, options_.early_ask_lifetime) {}

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
  rendezvous_.ForgetReasonOf(step_id);
}

// --- Receiving ---------------------------------------------------------------

void CollectiveRemoteAccess::Recv(const CollGroupMember& peer,
                                  const BufKey& key, const RecvRequest& recv) {
  const auto task = options_.cluster.TaskOf(peer.device.name);
  if (!task.ok()) return recv.receiver->OnDelivery(recv.id, task.status(), {});
  if (*task == options_.cluster.this_task) {
    return rendezvous_.Consume(key, recv);
  }
  const auto receive =
      std::make_shared<Receive>(shared_from_this(), *task, key, recv);
  bool is_first = false;
  {
    MutexLock lock(&mu_);
    is_first = receives_.try_emplace(key, receive).second;
  }
  if (is_first) return Request(*receive);
  recv.receiver->OnDelivery(recv.id,
                            absl::AlreadyExistsError(absl::StrCat(
                                ToString(key), ": asked for twice")),
                            {});
}

void CollectiveRemoteAccess::Request(Receive& receive) {
  // The receive is in `receives_`: any later cancellation finds it.
  absl::Status status = rendezvous_.StatusOf(receive.key.exec);
  if (!status.ok()) return receive.OnDelivery(0, std::move(status), {});
  TransferChannel& transfers = options_.transport->transfers();
  transfers.Request(receive.task, receive.key,
                    {.num_bytes = receive.recv.num_bytes,
                     .dtype = receive.recv.dtype,
                     .incarnation = receive.recv.incarnation,
                     .receiver = &receive,
                     .into = receive.recv.into});
  std::optional<absl::Status> ended;
  {
    MutexLock lock(&mu_);
    receive.is_requested = true;
    ended = receive.ended;
  }
  if (ended.has_value()) {
    transfers.Cancel(receive.task, receive.key, &receive, *std::move(ended));
  }
}

bool CollectiveRemoteAccess::Order::operator()(const BufKey& a,
                                               const BufKey& b) const {
  const auto fields = [](const BufKey& key) {
    const ExecKey& exec = key.exec;
    return std::tie(exec.step, exec.group, exec.generation, exec.instance,
                    exec.execution, key.tag, key.from, key.to);
  };
  return fields(a) < fields(b);
}

std::shared_ptr<CollectiveRemoteAccess::Receive>
CollectiveRemoteAccess::RemoveReceive(Receive& receive) {
  std::shared_ptr<Receive> kept = receive.shared_from_this();
  MutexLock lock(&mu_);
  const auto found = receives_.find(receive.key);
  if (found != receives_.end() && found->second == kept) receives_.erase(found);
  return kept;
}

// Ends the receives, and returns those to cancel. The others have not been
// requested, or have ended.
std::vector<std::shared_ptr<CollectiveRemoteAccess::Receive>>
CollectiveRemoteAccess::EndReceives(
    const BufKey& first, absl::FunctionRef<bool(const ExecKey&)> concerns,
    const absl::Status& reason) {
  std::vector<std::shared_ptr<Receive>> requested;
  for (auto it = receives_.lower_bound(first);
       it != receives_.end() && concerns(it->first.exec); ++it) {
    const std::shared_ptr<Receive>& receive = it->second;
    if (receive->ended.has_value()) continue;
    receive->ended = reason;
    if (receive->is_requested) requested.push_back(receive);
  }
  return requested;
}

std::vector<std::shared_ptr<CollectiveRemoteAccess::Receive>>
CollectiveRemoteAccess::EndReceivesOf(const ExecKey& exec,
                                      const absl::Status& reason) {
  return EndReceives(
      FirstOf(exec), [&](const ExecKey& other) { return other == exec; },
      reason);
}

std::vector<std::shared_ptr<CollectiveRemoteAccess::Receive>>
CollectiveRemoteAccess::EndReceivesOf(int64_t step_id,
                                      const absl::Status& reason) {
  return EndReceives(
      FirstOf(step_id),
      [&](const ExecKey& exec) { return exec.step == step_id; }, reason);
}

void CollectiveRemoteAccess::CancelReceives(
    const std::vector<std::shared_ptr<Receive>>& receives) {
  for (const auto& receive : receives) {
    options_.transport->transfers().Cancel(receive->task, receive->key,
                                           receive.get(), *receive->ended);
  }
}

bool CollectiveRemoteAccess::IsWithinTask(const CollGroupParams& group) const {
  return absl::c_all_of(group.members, [&](const CollGroupMember& member) {
    const auto task = options_.cluster.TaskOf(member.device.name);
    return task.ok() && *task == options_.cluster.this_task;
  });
}

// Names the senders of this task's receives. If there are none, names the
// receivers that have not requested data: a sender waits too, until they have.
std::string CollectiveRemoteAccess::DescribeWaiting(
    const CollGroupParams& group, const ExecKey& exec) {
  if (IsWithinTask(group)) return rendezvous_.DescribeWaiting(exec);
  const auto names_of = [&](const std::vector<int>& ranks) {
    return ShortList(ranks.size(), [&](size_t i) {
      const auto& member = group.members[static_cast<size_t>(ranks[i])];
      return absl::StrCat("rank ", ranks[i], " (",
                          member.device.name.ToString(), ")");
    });
  };
  std::set<int> senders;
  {
    MutexLock lock(&mu_);
    for (auto it = receives_.lower_bound(FirstOf(exec));
         it != receives_.end() && it->first.exec == exec; ++it) {
      senders.insert(it->first.from);
    }
  }
  if (!senders.empty()) {
    return absl::StrCat("data of ", names_of({senders.begin(), senders.end()}));
  }
  const std::vector<int> absent = rendezvous_.RanksThatHaveNotRequested(exec);
  if (absent.empty()) return "";
  return absl::StrCat(names_of(absent), " to ask for data");
}

// --- The end of executions and steps -----------------------------------------

bool CollectiveRemoteAccess::Cancel(const ExecKey& exec,
                                    const absl::Status& reason) {
  Ended ended;
  {
    MutexLock lock(&mu_);
    ended = BeginCancel(exec, reason);
  }
  Report(ended);
  return ended.waiting.is_first;
}

CollectiveRemoteAccess::Ended CollectiveRemoteAccess::BeginCancel(
    const ExecKey& exec, const absl::Status& reason) {
  Ended ended = {.waiting = rendezvous_.EndExecution(exec, reason)};
  // Otherwise the first cancellation has ended the receives.
  if (ended.waiting.is_first) ended.receives = EndReceivesOf(exec, reason);
  return ended;
}

void CollectiveRemoteAccess::EndGroup(const CollGroupParams& group,
                                      int64_t step_id) {
  using GroupInStep = BufRendezvous::GroupInStep;
  const GroupInStep ends = {step_id, group.key, group.generation};
  const absl::Status reason = group.cancellation->status();
  Ended ended;
  {
    MutexLock lock(&mu_);
    ended.waiting = rendezvous_.EndGroup(ends, reason);
    if (!ended.waiting.is_first) return;
    ended.receives = EndReceives(
        FirstOf(ends),
        [&](const ExecKey& exec) { return GroupInStep::Of(exec) == ends; },
        reason);
  }
  Report(ended);
}

void CollectiveRemoteAccess::Report(const Ended& ended) {
  CancelReceives(ended.receives);
  BufRendezvous::Report(ended.waiting);
}

void CollectiveRemoteAccess::TellOthers(const CollGroupParams& group,
                                        const ExecKey& exec,
                                        const absl::Status& reason) {
  proto::ControlRequest request;
  proto::CancelExecution& cancel = *request.mutable_cancel_execution();
  *cancel.mutable_key() = EncodeKey(exec);
  *cancel.mutable_reason() = EncodeError(reason);
  std::set<int> tasks;
  for (const CollGroupMember& member : group.members) {
    const auto task = options_.cluster.TaskOf(member.device.name);
    if (task.ok() && *task != options_.cluster.this_task) tasks.insert(*task);
  }
  const absl::Time deadline =
      options_.environment.clock->Now() + DefaultTime("end");
  for (const int task : tasks) {
    options_.transport->control().Call(task, request, {.deadline = deadline},
                                       [](const ControlAnswer&) {});
  }
}

absl::Status CollectiveRemoteAccess::CancelFromPeer(
    const ControlCaller& caller, const ExecKey& exec,
    const absl::Status& reason) {
  const absl::Status status = CancelKnown(caller, exec, reason);
  if (!absl::IsNotFound(status)) return status;
  // All members may have ended the execution before this task knows the group.
  const absl::Time now = options_.environment.clock->Now();
  {
    MutexLock lock(&mu_);
    // The execution, or its step, has ended here already.
    if (!rendezvous_.StatusOf(exec).ok()) return absl::OkStatus();
    if (!early_cancels_.Add({caller, exec, reason}, now)) {
      return absl::ResourceExhaustedError(
          absl::StrCat(options_.cluster.Label(options_.cluster.this_task),
                       " already knows ", early_cancels_.size(),
                       " failed executions of groups that it does not know"));
    }
  }
  ApplyEarlyCancels(exec.group);  // The group may be known by now.
  return absl::OkStatus();
}

// Applies the early reports whose group is known. The others stay: another
// thread may learn of their group now.
void CollectiveRemoteAccess::ApplyEarlyCancels(GroupKey group) {
  std::vector<EarlyCancels::EarlyCancel> concerned;
  {
    MutexLock lock(&mu_);
    concerned = early_cancels_.OfGroup(group);
  }
  for (const auto& cancel : concerned) {
    const absl::Status status =
        CancelKnown(cancel.caller, cancel.exec, cancel.reason);
    if (absl::IsNotFound(status)) continue;
    MutexLock lock(&mu_);
    early_cancels_.Remove(cancel);
  }
}

absl::Status CollectiveRemoteAccess::CancelKnown(const ControlCaller& caller,
                                                 const ExecKey& exec,
                                                 const absl::Status& reason) {
  ASSIGN_OR_RETURN(const auto group,
                   options_.groups->Find(exec.group, exec.generation));
  RETURN_IF_ERROR(CheckIsInGroup(options_.cluster, *group, caller));
  Ended ended;
  PeerAccessInterface::EndedCallback report_to_step;
  {
    MutexLock lock(&mu_);
    ended = BeginCancel(exec, reason);
    if (ended.waiting.is_first) ended_executions_.push_back(exec);
    if (ended_executions_.size() > options_.max_ended) {
      rendezvous_.ForgetExecution(ended_executions_.front());
      ended_executions_.pop_front();
    }
    const auto step = steps_.find(exec.step);
    if (step != steps_.end()) report_to_step = step->second->ended();
  }
  Report(ended);
  if (report_to_step != nullptr) report_to_step(exec, reason);
  return absl::OkStatus();
}

void CollectiveRemoteAccess::EndStep(int64_t step_id) {
  {
    MutexLock lock(&mu_);
    const auto found = steps_.find(step_id);
    if (found != steps_.end()) found->second->SetOver();
  }
  EndTransfers(step_id, StepHasEndedError(step_id));
  rendezvous_.ForgetReasonOf(step_id);
}

void CollectiveRemoteAccess::EndTransfers(int64_t step_id,
                                          const absl::Status& reason) {
  Ended ended;
  {
    MutexLock lock(&mu_);
    ended.waiting = rendezvous_.EndStep(step_id, reason);
    if (!ended.waiting.is_first) return;
    ended.receives = EndReceivesOf(step_id, reason);
    std::erase_if(ended_executions_, [step_id](const ExecKey& exec) {
      return exec.step == step_id;
    });
    early_cancels_.RemoveStep(step_id);
  }
  Report(ended);
}

// --- Serving -----------------------------------------------------------------

void CollectiveRemoteAccess::Serve(const ControlCaller& caller,
                                   const BufKey& key, const RecvRequest& recv) {
  served_.Serve(shared_from_this(), caller, key, recv);
}

void CollectiveRemoteAccess::Withdraw(const BufKey& key,
                                      const Receiver* receiver,
                                      absl::Status reason) {
  served_.Withdraw(key, receiver, reason);
}

void CollectiveRemoteAccess::OnGroupChange(GroupKey group) {
  ApplyEarlyCancels(group);
  served_.OnGroupChange(group);
}

size_t CollectiveRemoteAccess::num_receiving() const {
  MutexLock lock(&mu_);
  return receives_.size();
}

}  // namespace tutti
