#include "resolvers/membership/cluster_control.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/callbacks.h"
#include "framework/base/status_macros.h"
#include "framework/control/wire_codec.h"
#include "resolvers/membership/cluster_join.h"
#include "resolvers/messages/control_codec.h"
#include "tutti/peer_access.h"

namespace tutti {
namespace {

ControlAnswer Done(const absl::Status& status) {
  if (!status.ok()) return status;
  proto::ControlReply reply;
  reply.mutable_done();
  return reply;
}

}  // namespace

std::shared_ptr<ClusterControl> ClusterControl::Create(Options options) {
  const std::shared_ptr<ClusterControl> control(
      new ClusterControl(std::move(options)));
  control->Initialize();
  return control;
}

ClusterControl::ClusterControl(Options options)
    : options_(std::move(options)) {}

void ClusterControl::Initialize() {
  leadership_ = std::make_shared<Leadership>(options_.cluster.num_tasks());
  group_watch_ = std::make_unique<GroupWatch>(options_.cluster.this_task,
                                              options_.directory);
  heartbeats_ = std::make_shared<HeldAnswers>(
      options_.environment.clock, "heartbeat",
      [incarnation = options_.incarnation](const ControlCaller&) {
        proto::ControlReply reply;
        reply.mutable_heartbeat()->set_incarnation(incarnation);
        return reply;
      });
  hellos_ = std::make_shared<HeldAnswers>(
      options_.environment.clock, "hello",
      [weak_self =
           weak_from_this()](const ControlCaller& caller) -> ControlAnswer {
        const auto self = weak_self.lock();
        if (self == nullptr) return absl::CancelledError("the task shuts down");
        return self->HelloReply(caller, /*with_others=*/true);
      });
  device_resolver_ = std::make_shared<DeviceResolverDistributed>(
      options_.cluster, *options_.devices);
  step_sequence_ = std::make_shared<StepSequenceDistributed>(
      StepSequenceDistributed::Options{.cluster = options_.cluster,
                                       .environment = options_.environment,
                                       .channel = options_.channel,
                                       .leadership = leadership_,
                                       .incarnation = options_.incarnation});
  MakeHealth();
  leave_ = ClusterLeave::Create(
      {.cluster = options_.cluster,
       .environment = options_.environment,
       .channel = options_.channel,
       .leadership = leadership_,
       .hold = options_.health.hold,
       .waits_changed =
           IfAlive(std::weak_ptr<TaskHealth>(health_), &TaskHealth::Update)});
  MakeResolvers();
  options_.directory->SetListener(
      IfAlive(weak_from_this(), &ClusterControl::OnGroupChanged));
}

void ClusterControl::MakeHealth() {
  health_ = std::make_shared<TaskHealth>(TaskHealth::Options{
      .cluster = options_.cluster,
      .environment = options_.environment,
      .channel = options_.channel,
      .profile = options_.health,
      .watched =
          [weak_self = weak_from_this()] {
            const auto self = weak_self.lock();
            return self == nullptr ? std::vector<int>() : self->WatchedTasks();
          },
      .lost = IfAlive(weak_from_this(), &ClusterControl::OnTaskLost),
      .silent = options_.task_silent,
      .refused = IfAlive(weak_from_this(), &ClusterControl::OnRefused),
      .found = IfAlive(weak_from_this(), &ClusterControl::OnFound)});
}

// Cancels in the name of this task, whose members are in all groups that it
// knows.
std::function<void(const ExecKey&, const absl::Status&)>
ClusterControl::OwnCancelExecution() const {
  if (options_.cancel_execution == nullptr) return nullptr;
  const ControlCaller self{options_.cluster.this_task, options_.incarnation};
  return [cancel = options_.cancel_execution, self](
             const ExecKey& execution, const absl::Status& reason) {
    cancel(self, execution, reason).IgnoreError();  // Ended already.
  };
}

void ClusterControl::MakeResolvers() {
  const std::weak_ptr<TaskHealth> weak_health = health_;
  param_resolver_ = ParamResolverDistributed::Create(
      {.cluster = options_.cluster,
       .environment = options_.environment,
       .channel = options_.channel,
       .directory = options_.directory,
       .leadership = leadership_,
       .policy = options_.policy,
       .max_entries = options_.max_entries,
       .cancel_execution = OwnCancelExecution(),
       .loss_of =
           [weak_health](const ControlCaller& process) {
             const auto health = weak_health.lock();
             return health == nullptr ? absl::OkStatus()
                                      : health->LossOf(process);
           },
       .suspect = IfAlive(weak_health, &TaskHealth::Suspect),
       .waits_changed = IfAlive(weak_health, &TaskHealth::Update)});
}

// Returns the tasks that this one watches: some of each living group, tasks at
// which calls wait, tasks that Leave() waits for. A leader that waits for
// members cannot know where they will come from. It then watches all tasks with
// known devices.
std::vector<int> ClusterControl::WatchedTasks() const {
  std::set<int> tasks;
  for (int task : group_watch_->tasks()) tasks.insert(task);
  for (int task : param_resolver_->WaitsFor()) tasks.insert(task);
  for (int task : leave_->WaitsFor()) tasks.insert(task);
  if (options_.also_watched != nullptr) {
    for (int task : options_.also_watched()) tasks.insert(task);
  }
  const int num_tasks =
      param_resolver_->WaitsForAny() ? options_.cluster.num_tasks() : 0;
  for (int task = 0; task < num_tasks; ++task) {
    // Skip tasks without known devices: no one can tell how many devices are
    // left.
    if (device_resolver_->NumDevices(task).has_value()) tasks.insert(task);
  }
  return std::vector<int>(tasks.begin(), tasks.end());
}

// Takes the refusal as final from the leader, or if no other task is up. A
// single other task may be wrong.
void ClusterControl::OnRefused(int task, const absl::Status& why) {
  const auto leader = leadership_->leader();
  const bool by_leader = leader.ok() && *leader == task;
  if (by_leader || !health_->HasOthersUp(task)) {
    param_resolver_->OnRefused(why);
  }
}

void ClusterControl::OnTaskLost(const ControlCaller& process,
                                const absl::Status& reason) {
  param_resolver_->OnTaskLost(process, reason);
  CountDevicesLeft();
  leave_->OnLost(process);
  if (options_.task_lost != nullptr) options_.task_lost(process, reason);
}

void ClusterControl::OnFound(const ControlCaller& process) {
  leave_->OnFound(process);
  param_resolver_->OnFound(process.task);
  CountDevicesLeft();
}

// The last of several counts uses the newest state.
void ClusterControl::CountDevicesLeft() {
  count_.Run([this] { CountDevicesLeftOnce(); });
}

// Counts the devices of the tasks that are not lost. An unknown task may have
// many. A lost task may come back, but no call waits for that. While no task is
// lost there is nothing to count: tasks become known one by one.
void ClusterControl::CountDevicesLeftOnce() {
  const absl::Status loss = health_->FirstLoss();
  if (loss.ok()) {
    param_resolver_->led().SetDevicesLeft(kMaxGroupSize, loss);
    knows_all_ = device_resolver_->num_tasks() == options_.cluster.num_tasks();
    if (knows_all_) hellos_->Release();
    return;
  }
  int64_t total = 0;
  bool knows_all = true;
  for (int task = 0; task < options_.cluster.num_tasks(); ++task) {
    if (health_->state(task) == TaskHealth::State::kLost) continue;
    const auto num_devices = device_resolver_->NumDevices(task);
    knows_all &= num_devices.has_value();
    total += num_devices.value_or(kMaxDevicesOfTask);
  }
  param_resolver_->led().SetDevicesLeft(total, loss);
  knows_all_ = knows_all;
  if (knows_all) hellos_->Release();
}

void ClusterControl::OnGroupChanged(GroupKey key, uint64_t generation) {
  const auto group = options_.directory->Find(key, generation);
  if (group.ok()) {
    for (const CollGroupMember& member : (*group)->members) {
      device_resolver_->Accept(member.device.name.task,
                               member.device.incarnation);
    }
  }
  group_watch_->OnGroupChanged(key, generation);
  health_->Update();
  if (options_.group_changed != nullptr) {
    options_.group_changed(key, generation);
  }
}

// --- Start -------------------------------------------------------------------

proto::Hello ClusterControl::OwnHello() const {
  proto::Hello hello;
  hello.set_num_tasks(options_.cluster.num_tasks());
  for (const Device* device : options_.devices->devices()) {
    EncodeDevice(device->attributes(), hello.add_devices());
  }
  return hello;
}

void ClusterControl::Join(
    absl::Time deadline,
    std::function<void(const std::vector<int>& missing)> progress,
    StatusCallback done) {
  ClusterJoin::Start(
      {.cluster = options_.cluster,
       .environment = options_.environment,
       .channel = options_.channel,
       .hello = OwnHello(),
       .hold = options_.health.hold,
       .deadline = deadline,
       .cancellation = end_,
       .progress = std::move(progress),
       .leader =
           [self = shared_from_this()] { return self->leadership_->leader(); },
       .heard =
           [self = shared_from_this()](int task,
                                       const proto::HelloReply& reply) {
             return self->OnHelloReply(task, reply);
           },
       .has_called =
           [self = shared_from_this()](int task) {
             return self->health_->state(task) != TaskHealth::State::kUnknown;
           },
       .silent = options_.task_silent},
      std::move(done));
}

void ClusterControl::End(const absl::Status& reason) {
  end_->Cancel(reason);
  leave_->End(reason);
}

absl::StatusOr<std::vector<int>> ClusterControl::OnHelloReply(
    int task, const proto::HelloReply& reply) {
  RETURN_IF_ERROR(CheckNumTasks(options_.cluster, task, reply.num_tasks()));
  const ControlCaller owner{task, reply.incarnation()};
  ASSIGN_OR_RETURN(auto devices,
                   DecodeDevices(options_.cluster, owner, reply.devices()));
  ASSIGN_OR_RETURN(auto others,
                   DecodeDevicesOfTasks(options_.cluster, reply.others()));
  ASSIGN_OR_RETURN(const auto lost,
                   DecodeTasks(options_.cluster, reply.lost_tasks()));
  absl::Status status = health_->OnAnswered(owner);
  if (!status.ok()) return absl::UnavailableError(status.message());
  SetDevices(owner, std::move(devices));
  std::vector<int> known;
  for (auto& [other, devices_of_it] : others) {
    if (other == options_.cluster.this_task) continue;
    known.push_back(other);
    const ControlCaller process{other, devices_of_it[0].incarnation};
    if (health_->OnTold(process)) SetDevices(process, std::move(devices_of_it));
  }
  param_resolver_->OnMayNotLead(lost, /*answered=*/nullptr);
  return known;
}

// --- Calls of other tasks ----------------------------------------------------

void ClusterControl::Handle(const ControlCaller& caller,
                            const proto::ControlRequest& request,
                            std::shared_ptr<Cancellation> withdrawn,
                            ControlDone done) {
  absl::Status status = health_->OnHeard(caller);
  if (!status.ok()) return std::move(done)(std::move(status));
  if (withdrawn == nullptr) withdrawn = std::make_shared<Cancellation>();
  switch (request.kind_case()) {
    case proto::ControlRequest::kHeartbeat:
      return heartbeats_->Add(caller, request.heartbeat().hold_ms(), withdrawn,
                              std::move(done));
    case proto::ControlRequest::kHello:
      return AnswerHello(caller, request.hello(), withdrawn, std::move(done));
    case proto::ControlRequest::kGoodbye:
      return leave_->OnGoodbye(caller, request.goodbye(), withdrawn,
                               std::move(done));
    case proto::ControlRequest::kCompleteParams:
      return param_resolver_->leader().CompleteParams(
          caller, request.complete_params(), std::move(withdrawn),
          std::move(done));
    case proto::ControlRequest::kSubmitTensors:
    case proto::ControlRequest::kAwaitDecisions:
    case proto::ControlRequest::kEndDecisions:
      if (options_.named_tensors == nullptr) {
        return std::move(done)(absl::UnimplementedError(
            absl::StrCat(options_.cluster.Label(options_.cluster.this_task),
                         " does not coordinate named tensors")));
      }
      return options_.named_tensors->Handle(
          caller, request, std::move(withdrawn), std::move(done));
    default:
      return std::move(done)(AnswerNow(caller, request));
  }
}

ControlAnswer ClusterControl::AnswerNow(const ControlCaller& caller,
                                        const proto::ControlRequest& request) {
  switch (request.kind_case()) {
    case proto::ControlRequest::kDescribeWaiting:
      return param_resolver_->leader().DescribeWaiting(
          request.describe_waiting());
    case proto::ControlRequest::kStepSequence:
      return step_sequence_->Draw(caller, request.step_sequence());
    case proto::ControlRequest::kEndGroup:
      return Done(param_resolver_->OnEndGroup(caller, request.end_group()));
    case proto::ControlRequest::kCleanupStep:
      return Done(CleanupStep(request.cleanup_step().step()));
    case proto::ControlRequest::kCancelExecution:
      return Done(CancelExecution(caller, request.cancel_execution()));
    default:
      return absl::InvalidArgumentError(
          absl::StrCat(options_.cluster.Label(caller.task),
                       " sent a control message that asks for nothing that ",
                       "this version knows"));
  }
}

absl::Status ClusterControl::RunsNothing() const {
  return absl::UnimplementedError(
      absl::StrCat(options_.cluster.Label(options_.cluster.this_task),
                   " runs no collectives that could be ended"));
}

absl::Status ClusterControl::CleanupStep(int64_t step_id) {
  if (options_.cleanup_step == nullptr) return RunsNothing();
  options_.cleanup_step(step_id);
  return absl::OkStatus();
}

absl::Status ClusterControl::CancelExecution(
    const ControlCaller& caller, const proto::CancelExecution& message) {
  const ExecKey execution = DecodeKey(message.key());
  const absl::Status reason = DecodeError(message.reason());
  if (execution.generation == 0) {
    return param_resolver_->OnGivenUp(
        caller, {.execution = execution, .reason = reason});
  }
  if (options_.cancel_execution == nullptr) return RunsNothing();
  absl::Status status = options_.cancel_execution(caller, execution, reason);
  // All members may have ended the execution before this task knows the group.
  if (absl::IsNotFound(status)) status = absl::OkStatus();
  if (status.ok() || execution.generation <=
                         options_.directory->EndedGeneration(execution.group)) {
    param_resolver_->OnCancelled(caller, execution, reason);
  }
  return status;
}

// Sets the devices. From now on the task is watched where members may come from
// any task.
void ClusterControl::SetDevices(const ControlCaller& owner,
                                std::vector<DeviceAttributes> devices) {
  device_resolver_->Set(owner.task, owner.incarnation, std::move(devices));
  CountDevicesLeft();
  health_->Update();
}

// A task that does not lead answers at once: the caller then finds the leader.
// So does one to a caller that says Hello to all.
void ClusterControl::AnswerHello(const ControlCaller& caller,
                                 const proto::Hello& message,
                                 const std::shared_ptr<Cancellation>& withdrawn,
                                 ControlDone done) {
  absl::Status status =
      CheckNumTasks(options_.cluster, caller.task, message.num_tasks());
  if (!status.ok()) return std::move(done)(std::move(status));
  auto devices = DecodeDevices(options_.cluster, caller, message.devices());
  if (!devices.ok()) return std::move(done)(devices.status());
  SetDevices(caller, *std::move(devices));
  const auto leader = leadership_->leader();
  const bool leads = leader.ok() && *leader == options_.cluster.this_task;
  if (message.hold_ms() == 0 || !leads || health_->HasReplaced(caller.task)) {
    return std::move(done)(HelloReply(caller, /*with_others=*/false));
  }
  hellos_->Add(caller, message.hold_ms(), withdrawn, std::move(done));
  if (knows_all_) hellos_->Release();
}

ControlAnswer ClusterControl::HelloReply(const ControlCaller& caller,
                                         bool with_others) const {
  proto::ControlReply reply;
  proto::HelloReply* const hello = reply.mutable_hello();
  *hello->mutable_devices() = OwnHello().devices();
  hello->set_incarnation(options_.incarnation);
  hello->set_num_tasks(options_.cluster.num_tasks());
  hello->set_replaces(health_->HasReplaced(caller.task));
  for (int task : leadership_->lost_tasks()) hello->add_lost_tasks(task);
  const int num_tasks = with_others ? options_.cluster.num_tasks() : 0;
  for (int task = 0; task < num_tasks; ++task) {
    if (task == caller.task || task == options_.cluster.this_task) continue;
    const auto [incarnation, devices] = device_resolver_->DevicesOf(task);
    if (!health_->IsUp({task, incarnation})) continue;
    for (const DeviceAttributes& device : devices) {
      EncodeDevice(device, hello->add_others());
    }
  }
  return reply;
}

}  // namespace tutti
