// Fuzzes one task among others whose messages come from the input: requests
// that the task serves, and answers to its own requests, in any order.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/collective/group_directory.h"
#include "framework/control/wire_codec.h"
#include "named_tensors/coordinator_server.h"
#include "named_tensors/coordinator_table.h"
#include "resolvers/membership/cluster_control.h"
#include "resolvers/messages/control_codec.h"
#include "resolvers/messages/group_codec.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tutti/device.h"

namespace tutti {
namespace {

constexpr int kNumTasks = 3;
constexpr int kMaxActions = 200;

enum class Action {
  kRequest,   // Another task requests: {caller, whether it restarted, message}.
  kWithdraw,  // Cancels a request of another task: {which request}.
  kReply,     // Another task answers: {which call, message}.
  kError,     // A call to another task fails: {which call, code}.
  kCall,      // A member of this task calls: {type, size, instance}.
  kCancel,    // Cancels a member's call: {which}.
  kEndGroup,
  kDrawStep,
  kLeave,
  kWait,  // {100 ms}
  kNumActions,
};

uint64_t IncarnationOf(int task) { return 100 + task; }

ClusterSpec ClusterOf(int this_task) {
  return {.addresses = {"a:1", "b:1", "c:1"}, .this_task = this_task};
}

DeviceAttributes DeviceOf(int task) {
  return {.name = {"worker", 0, task, "CPU", 0},
          .incarnation = IncarnationOf(task)};
}

CollectiveRequest RequestOf(int type, int size, int instance) {
  static const auto* const ops = new std::vector<CollectiveOp>{
      AllReduce{}, AllGather{.uneven = true}, Broadcast{},
      AllToAll{.send_rows = {1, 2, 1}}, GatherToRoot{.root = 1}};
  CollectiveRequest request;
  request.group_key = 4;
  request.group_size = size;
  request.instance_key = instance;
  request.op = (*ops)[type];
  request.shape = TensorShape::Vector(4);
  return request;
}

// An expected answer, and how often it arrived.
struct Waiting {
  std::shared_ptr<Cancellation> token = std::make_shared<Cancellation>();
  int num_answers = 0;
};
using WaitingPtr = std::shared_ptr<Waiting>;

// Calls of this task, which the input answers.
class Channel : public ControlChannel {
 public:
  void Call(int task, proto::ControlRequest request, ControlCallOptions options,
            ControlDone done) override {
    Promise(task >= 0 && task < kNumTasks, "tasks that are called exist");
    Promise(request.ByteSizeLong() <= size_t{64} << 10,
            "requests are within their bound");
    const auto call = std::make_shared<ControlDone>(std::move(done));
    if (is_shut_down_) {
      return End(call, absl::CancelledError("the task shuts down"));
    }
    calls_.push_back(call);
    if (options.cancellation == nullptr) return;
    options.cancellation->Watch(
        [this, weak = std::weak_ptr<ControlDone>(call)](const auto& reason) {
          if (const auto cancelled = weak.lock()) End(cancelled, reason);
        });
  }

  void Answer(int which, const ControlAnswer& answer) {
    if (!calls_.empty()) End(calls_[which % calls_.size()], answer);
  }

  void Shutdown() {
    is_shut_down_ = true;
    while (!calls_.empty()) {
      End(calls_.back(), absl::CancelledError("the task shuts down"));
    }
  }

 private:
  using CallPtr = std::shared_ptr<ControlDone>;

  void End(CallPtr call, const ControlAnswer& answer) {
    std::erase(calls_, call);
    if (*call == nullptr) return;
    ControlDone done = std::exchange(*call, nullptr);
    std::move(done)(answer);
  }

  std::vector<CallPtr> calls_;
  bool is_shut_down_ = false;
};

class Task {
 public:
  explicit Task(int this_task) : this_task_(this_task) {
    std::vector<std::unique_ptr<Device>> devices;
    devices.push_back(std::make_unique<CpuDevice>(DeviceOf(this_task)));
    devices_ = *DeviceManager::Create(std::move(devices));
    const auto refuse = [](auto&&...) {
      return absl::PermissionDeniedError("not here");
    };
    named_tensors_ = std::make_shared<CoordinatorTable>(
        ClusterOf(this_task), [this](int64_t, const std::vector<int>& tasks) {
          return CoordinatorServer::Create(
              {.cluster = ClusterOf(this_task_),
               .tasks = tasks,
               .clock = environment_.get().clock,
               .settings = {.stall_deadline = absl::Seconds(90),
                            .stalled = [](const auto&) {}}});
        });
    Promise(named_tensors_->Create(/*key=*/0, /*tasks=*/{}).ok(),
            "the coordinator of all tasks can be made");
    control_ =
        ClusterControl::Create({.cluster = ClusterOf(this_task),
                                .environment = environment_.get(),
                                .channel = channel_,
                                .directory = std::make_shared<GroupDirectory>(),
                                .devices = devices_,
                                .incarnation = IncarnationOf(this_task),
                                .max_entries = 64,
                                .cancel_execution = refuse,
                                .cleanup_step = [](int64_t) {},
                                .named_tensors = named_tensors_});
    const WaitingPtr join = Expect();
    control_->Join(
        Now() + absl::Seconds(30), [](const auto&) {},
        [join](const absl::Status&) { ++join->num_answers; });
  }

  // Expects that every waiting caller is answered once when it gives up.
  ~Task() {
    for (size_t i = 0; i < waiting_.size(); ++i) {
      waiting_[i]->token->Cancel(absl::CancelledError("given up"));
    }
    channel_->Shutdown();
    environment_.Advance(absl::Minutes(1));
    for (const WaitingPtr& waiting : waiting_) {
      Promise(waiting->num_answers > 0, "whoever waits is answered");
      Promise(waiting->num_answers < 2, "nobody is answered twice");
    }
    Promise(control_->param_resolver()->num_waiting() == 0,
            "whoever gives up leaves nothing behind");
    control_ = nullptr;
    environment_.Advance(absl::Hours(1));
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  void Act(FuzzInput& input) {
    switch (static_cast<Action>(
        input.Choice(static_cast<int>(Action::kNumActions)))) {
      case Action::kRequest:
        return Serve(input);
      case Action::kWithdraw:
      case Action::kCancel:
        return waiting_[input.Number<uint8_t>() % waiting_.size()]
            ->token->Cancel(absl::CancelledError("withdrawn"));
      case Action::kReply:
        return Answer(input);
      case Action::kError: {
        const int which = input.Number<uint8_t>();
        const auto code = static_cast<absl::StatusCode>(1 + input.Choice(16));
        return channel_->Answer(which, absl::Status(code, "an error"));
      }
      case Action::kCall:
        return Request(input);
      case Action::kEndGroup:
        return control_->param_resolver()->EndGroup(
            4, absl::AbortedError("the group is to be formed again"));
      case Action::kDrawStep: {
        const WaitingPtr waiting = Expect();
        return control_->step_sequence()->RefreshStepIdSequenceAsync(
            input.Choice(4),
            [waiting](const absl::Status&) { ++waiting->num_answers; });
      }
      case Action::kLeave:
        return Leave();
      default:
        environment_.Advance(absl::Milliseconds(100) * input.Number<uint8_t>());
    }
  }

 private:
  absl::Time Now() { return environment_.get().clock->Now(); }

  WaitingPtr Expect() {
    return waiting_.emplace_back(std::make_shared<Waiting>());
  }

  void Serve(FuzzInput& input) {
    const int task = input.Choice(kNumTasks);
    const int age = input.Choice(4);
    proto::ControlRequest request;
    if (!request.ParseFromString(input.Text())) return;
    const WaitingPtr waiting = Expect();
    control_->Handle(
        {task, IncarnationOf(task) + age}, request, waiting->token,
        [waiting](const ControlAnswer& answer) {
          ++waiting->num_answers;
          Promise(!answer.ok() ||
                      answer->kind_case() != proto::ControlReply::KIND_NOT_SET,
                  "an answer says something");
        });
    Promise(
        control_->param_resolver()->leader().num_waiting() <= waiting_.size(),
        "calls that wait are counted");
  }

  void Answer(FuzzInput& input) {
    const int which = input.Number<uint8_t>();
    proto::ControlReply reply;
    if (reply.ParseFromString(input.Text())) channel_->Answer(which, reply);
  }

  void Request(FuzzInput& input) {
    const int type = input.Choice(5);
    const int size = type == 3 ? 3 : 1 + input.Choice(3);
    const auto request = std::make_shared<const CollectiveRequest>(
        RequestOf(type, size, input.Choice(4)));
    const WaitingPtr waiting = Expect();
    control_->param_resolver()->CompleteInstanceAsync(
        DeviceOf(this_task_), request, CallNumber{}, waiting->token,
        [waiting, request](const auto& params) {
          ++waiting->num_answers;
          if (!params.ok()) return;
          const CollectiveParams& got = **params;
          Promise(got.group->size() == request->group_size &&
                      got.default_rank >= 0 &&
                      got.default_rank < got.group->size(),
                  "a member has a rank in a group of the size asked for");
        });
  }

  void Leave() {
    if (has_left_) return;
    has_left_ = true;
    const WaitingPtr waiting = Expect();
    control_->Leave(Now() + absl::Seconds(30),
                    [waiting](const absl::Status&) { ++waiting->num_answers; });
  }

  const int this_task_;
  SimulatedEnvironment environment_{/*seed=*/1};
  const std::shared_ptr<Channel> channel_ = std::make_shared<Channel>();
  std::shared_ptr<DeviceManager> devices_;
  std::vector<WaitingPtr> waiting_;
  bool has_left_ = false;
  std::shared_ptr<CoordinatorTable> named_tensors_;
  std::shared_ptr<ClusterControl> control_;
};

// --- Seeds -------------------------------------------------------------------

FuzzOutput& Do(Action action, FuzzOutput& output) {
  return output.Choice(static_cast<int>(action));
}

void AddRequest(int caller, const proto::ControlRequest& request,
                FuzzOutput& output) {
  Do(Action::kRequest, output)
      .Choice(caller)
      .Choice(0)
      .Text(request.SerializeAsString());
}

void AddReply(int which, const proto::ControlReply& reply, FuzzOutput& output) {
  Do(Action::kReply, output)
      .Number(static_cast<uint8_t>(which))
      .Text(reply.SerializeAsString());
}

void AddCall(int type, int size, int instance, FuzzOutput& output) {
  Do(Action::kCall, output).Choice(type);
  if (type != 3) output.Choice(size - 1);
  output.Choice(instance);
}

proto::ControlRequest HelloOf(int task) {
  proto::ControlRequest request;
  request.mutable_hello()->set_num_tasks(kNumTasks);
  EncodeDevice(DeviceOf(task), request.mutable_hello()->add_devices());
  return request;
}

proto::ControlReply HelloReplyOf(int task) {
  proto::ControlReply reply;
  reply.mutable_hello()->set_incarnation(IncarnationOf(task));
  reply.mutable_hello()->set_num_tasks(kNumTasks);
  EncodeDevice(DeviceOf(task), reply.mutable_hello()->add_devices());
  return reply;
}

proto::ControlRequest CallOf(int task, const CollectiveRequest& request) {
  proto::ControlRequest message;
  const auto call = EncodeMemberCall(
      {.device = DeviceOf(task),
       .request = std::make_shared<const CollectiveRequest>(request)});
  Promise(call.ok(), "a seed is a good call");
  *message.mutable_complete_params() = *call;
  return message;
}

// A member of task 0, the leader, and two others, which send requests to it.
std::string LeaderSeed(int type) {
  FuzzOutput seed;
  seed.Choice(0);
  for (int task = 1; task < kNumTasks; ++task) {
    AddReply(0, HelloReplyOf(task), seed);
    AddRequest(task, HelloOf(task), seed);
  }
  for (int instance = 0; instance < 2; ++instance) {
    AddCall(type, 3, instance, seed);
    for (int task = 1; task < kNumTasks; ++task) {
      CollectiveRequest request = RequestOf(type, 3, instance);
      if (type == 2) request.op = Broadcast{.is_source = task == 1};
      AddRequest(task, CallOf(task, request), seed);
    }
  }
  proto::ControlRequest end;
  end.mutable_end_group()->set_group_key(4);
  end.mutable_end_group()->set_generation(1);
  *end.mutable_end_group()->mutable_reason() =
      EncodeError(absl::AbortedError("why"));
  AddRequest(1, end, seed);
  Do(Action::kLeave, seed);
  return seed.bytes();
}

proto::ControlReply SettledReply() {
  auto group = std::make_shared<CollGroupParams>();
  group->key = 4;
  group->generation = 1;
  group->device_type = "CPU";
  for (int task = 0; task < kNumTasks; ++task) {
    group->members.push_back({DeviceOf(task)});
  }
  proto::ControlReply reply;
  proto::Settled& settled = *reply.mutable_complete_params()->mutable_settled();
  *settled.mutable_group() = EncodeGroup(*group);
  settled.mutable_instance()->add_shape(4);
  settled.mutable_instance()->set_implementation("RingReduce");
  return reply;
}

// A member of task 1, which sends its request to task 0.
std::string MemberSeed(const proto::ControlReply& reply) {
  FuzzOutput seed;
  seed.Choice(1);
  AddReply(0, HelloReplyOf(0), seed);
  AddReply(0, HelloReplyOf(2), seed);
  AddCall(0, 3, 1, seed);
  AddReply(0, reply, seed);
  AddReply(1, reply, seed);
  AddCall(0, 3, 2, seed);
  AddReply(0, reply, seed);
  AddReply(1, reply, seed);
  Do(Action::kDrawStep, seed).Choice(1);
  proto::ControlReply step;
  step.mutable_step_sequence()->set_step_id(17);
  AddReply(1, step, seed);
  Do(Action::kWait, seed).Number(uint8_t{40});
  Do(Action::kError, seed).Number(uint8_t{0}).Choice(13);
  return seed.bytes();
}

std::string SmallRequestsSeed() {
  FuzzOutput seed;
  seed.Choice(0);
  proto::ControlRequest request;
  request.mutable_heartbeat()->set_hold_ms(1000);
  AddRequest(1, request, seed);
  request.mutable_describe_waiting()->set_group_key(4);
  AddRequest(1, request, seed);
  request.mutable_step_sequence()->set_number(1);
  AddRequest(2, request, seed);
  request.mutable_cleanup_step()->set_step(1);
  AddRequest(2, request, seed);
  request.mutable_cancel_execution()->mutable_key()->set_step(1);
  AddRequest(2, request, seed);
  request.mutable_goodbye();
  AddRequest(2, request, seed);
  return seed.bytes();
}

// Seed for the coordinator of all tasks, or for another one of all tasks.
std::string NamedTensorsSeed(int64_t key) {
  const auto set_key = [key](auto& message) {
    message.set_coordinator(key);
    for (int task = 0; key > 0 && task < kNumTasks; ++task) {
      message.add_ranks(task);
    }
  };
  FuzzOutput seed;
  seed.Choice(0);
  for (int number = 1; number < 3; ++number) {
    for (int task = 0; task < kNumTasks; ++task) {
      proto::ControlRequest await;
      await.mutable_await_decisions()->set_after(number - 1);
      set_key(*await.mutable_await_decisions());
      AddRequest(task, await, seed);
      proto::ControlRequest request;
      proto::SubmitTensors& submit = *request.mutable_submit_tensors();
      submit.set_number(number);
      submit.set_first_request(number);
      submit.set_name_head("x");
      set_key(submit);
      if (number == 1) {
        proto::TensorRequest& tensor = *submit.add_requests();
        tensor.set_merge_op("sum");
        tensor.add_shape(4);
      } else {
        submit.set_slots("\x01");
      }
      AddRequest(task, request, seed);
    }
  }
  proto::ControlRequest end;
  *end.mutable_end_decisions()->mutable_reason() =
      EncodeError(absl::CancelledError("over"));
  set_key(*end.mutable_end_decisions());
  AddRequest(1, end, seed);
  return seed.bytes();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  Task task(input.Choice(2));
  for (int i = 0; i < kMaxActions && !input.empty(); ++i) task.Act(input);
  return 0;
}

std::vector<std::string> FuzzSeeds() {
  proto::ControlReply failure;
  failure.mutable_complete_params()->mutable_failure()->set_generation(1);
  *failure.mutable_complete_params()->mutable_failure()->mutable_reason() =
      EncodeError(absl::UnavailableError("task 2 was lost"));
  proto::ControlReply not_leader;
  not_leader.mutable_complete_params()->mutable_not_leader()->add_lost_tasks(0);
  return {
      LeaderSeed(0),       LeaderSeed(1),          LeaderSeed(2),
      LeaderSeed(3),       LeaderSeed(4),          MemberSeed(SettledReply()),
      MemberSeed(failure), MemberSeed(not_leader), SmallRequestsSeed(),
      NamedTensorsSeed(0), NamedTensorsSeed(7)};
}

}  // namespace tutti
