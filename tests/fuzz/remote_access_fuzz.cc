// Fuzzes the requests of other tasks for bytes that a task posts: the records
// of a transfer stream after parsing, mixed with the task's own posts.

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "remote/collective_remote_access.h"
#include "remote/grpc/wire/transfer_wire.h"
#include "tests/cluster/loopback_network.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tutti/params.h"

namespace tutti {
namespace {

constexpr int kNumTasks = 3;
constexpr int kThisTask = 0;
constexpr int kMaxActions = 200;
constexpr int64_t kStep = 5;
constexpr GroupKey kGroup = 7;
constexpr uint64_t kGeneration = 1;
constexpr size_t kMaxRequests = 8;

enum class Action {
  kServe,     // {caller, whether it restarted, record}
  kWithdraw,  // {which request}
  kCancel,    // {caller, whether it restarted, record: its execution}
  kPost,      // {receiver, tag}
  kEndStep,
  kEndGroup,
  kNewGroup,
  kWait,
  kNumActions,
};

uint64_t IncarnationOf(int task) { return 100 + task; }

ClusterSpec Cluster() { return {.addresses = {"a:1", "b:1", "c:1"}}; }

// Group in which rank i is in task i.
std::shared_ptr<const CollGroupParams> GroupOf(uint64_t generation) {
  auto group = std::make_shared<CollGroupParams>();
  group->key = kGroup;
  group->generation = generation;
  for (int rank = 0; rank < kNumTasks; ++rank) {
    group->members.push_back({{.name = {"worker", 0, rank, "CPU", 0},
                               .incarnation = IncarnationOf(rank)}});
  }
  group->cancellation = std::make_shared<Cancellation>();
  return group;
}

BufKey KeyOf(uint64_t generation, int to, int tag) {
  return {.exec = {generation, kStep, kGroup, 1, 1},
          .tag = tag,
          .from = kThisTask,
          .to = to};
}

class OwnSender : public Sender {
 public:
  void OnReleased(int32_t, absl::Status) override { ++num_reported; }
  int num_reported = 0;
};

class RecvCaller : public ServedRequest {
 public:
  RecvCaller(const ControlCaller& caller, const TransferRecord& record)
      : ServedRequest(caller, record.key,
                      {.num_bytes = record.num_bytes,
                       .dtype = record.dtype,
                       .incarnation = record.incarnation}) {}

  int num_reported = 0;

 private:
  void OnAnswer(absl::Status status, const Delivery& delivery) override {
    ++num_reported;
    if (!status.ok()) {
      return Promise(delivery.sender == nullptr,
                     "an error comes with nothing to release");
    }
    Promise(key.to == caller.task &&
                caller.incarnation == IncarnationOf(caller.task),
            "nobody gets another's bytes");
    Promise(delivery.bytes.size() == recv.num_bytes,
            "who gets bytes gets as many as it asked for");
    delivery.Release(absl::OkStatus());
  }
};

// Answers no call: the calls of this task get lost.
class NoService : public ControlService {
 public:
  void Handle(const ControlCaller&, const proto::ControlRequest&,
              std::shared_ptr<Cancellation>, ControlDone done) override {
    std::move(done)(proto::ControlReply());
  }
};

class Task {
 public:
  Task() {
    access_ =
        CollectiveRemoteAccess::Create({.cluster = Cluster(),
                                        .environment = environment_.get(),
                                        .groups = groups_,
                                        .transport = transport_,
                                        .max_waiting_requests = kMaxRequests,
                                        .max_ended = kMaxRequests});
    groups_->SetListener([access = access_.get()](GroupKey group, uint64_t) {
      access->OnGroupChange(group);
    });
    Promise(transport_->Start(&service_, access_.get()).ok(),
            "the network starts");
    step_ = access_->ForStep(kStep);
    groups_->Add(GroupOf(generation_));
  }

  // Expects that each request is answered once when the step ends.
  ~Task() {
    step_ = nullptr;
    environment_.Advance(absl::Minutes(1));
    for (const auto& requester : callers_) {
      access_->Withdraw(requester, absl::CancelledError("withdrawn"));
    }
    environment_.RunAll();
    for (const auto& requester : callers_) {
      Promise(requester->num_reported == 1, "who asks is told, once");
    }
    for (const OwnSender& sender : lenders_) {
      Promise(sender.num_reported == 1, "who lends is told, once");
    }
    Promise(access_->num_served() == 0, "no ask is left");
    transport_->Shutdown();
    environment_.RunAll();
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  void Act(FuzzInput& input) {
    switch (static_cast<Action>(
        input.Choice(static_cast<int>(Action::kNumActions)))) {
      case Action::kServe:
        Serve(input);
        break;
      case Action::kWithdraw:
        Withdraw(input);
        break;
      case Action::kCancel:
        Cancel(input);
        break;
      case Action::kPost:
        Post(input);
        break;
      case Action::kEndStep:
        step_ = nullptr;
        step_ = access_->ForStep(kStep);
        break;
      case Action::kEndGroup:
        groups_->End(kGroup, generation_, absl::AbortedError("ended"));
        break;
      case Action::kNewGroup:
        groups_->Add(GroupOf(++generation_));
        break;
      default:
        environment_.Advance(absl::Seconds(10));
    }
    Promise(access_->num_served() <= (kNumTasks - 1) * kMaxRequests,
            "asks that wait are bounded");
  }

 private:
  static ControlCaller CallerIn(FuzzInput& input) {
    const int task = 1 + input.Choice(kNumTasks - 1);
    return {task, IncarnationOf(task) + input.Choice(2)};
  }

  static absl::StatusOr<TransferRecord> RecordIn(FuzzInput& input) {
    EncodedRecord bytes;
    for (std::byte& byte : bytes) byte = std::byte{input.Number<uint8_t>()};
    return DecodeRecord(bytes);
  }

  void Serve(FuzzInput& input) {
    const ControlCaller caller = CallerIn(input);
    const auto record = RecordIn(input);
    if (!record.ok()) return;
    access_->Serve(
        callers_.emplace_back(std::make_shared<RecvCaller>(caller, *record)));
  }

  void Withdraw(FuzzInput& input) {
    if (callers_.empty()) return;
    access_->Withdraw(callers_[input.Number<uint8_t>() % callers_.size()],
                      absl::CancelledError("withdrawn"));
  }

  void Cancel(FuzzInput& input) {
    const ControlCaller caller = CallerIn(input);
    const auto record = RecordIn(input);
    if (!record.ok()) return;
    const absl::Status status = access_->CancelFromPeer(
        caller, record->key.exec, absl::AbortedError("a peer says so"));
    Promise(!status.ok() || caller.incarnation == IncarnationOf(caller.task),
            "only members cancel");
  }

  void Post(FuzzInput& input) {
    const int to = 1 + input.Choice(kNumTasks - 1);
    const BufKey key = KeyOf(generation_, to, input.Choice(4));
    OwnSender& sender = lenders_.emplace_back();
    step_->PostToPeer(GroupOf(generation_)->members[to], key,
                      {.bytes = bytes_,
                       .dtype = DType::kUint8,
                       .incarnation = IncarnationOf(kThisTask),
                       .sender = &sender});
  }

  SimulatedEnvironment environment_{/*seed=*/1};
  LoopbackNetwork network_{Cluster(), environment_.get().queue,
                           /*part_elements=*/64};
  std::array<std::byte, 16> bytes_ = {};
  std::deque<OwnSender> lenders_;
  std::vector<std::shared_ptr<RecvCaller>> callers_;
  uint64_t generation_ = kGeneration;
  NoService service_;
  const std::shared_ptr<GroupDirectory> groups_ =
      std::make_shared<GroupDirectory>();
  const std::shared_ptr<Transport> transport_ =
      network_.Connect(kThisTask, IncarnationOf(kThisTask));
  std::shared_ptr<CollectiveRemoteAccess> access_;
  std::unique_ptr<PeerAccessInterface> step_;
};

void AddRecord(Action action, int caller, const TransferRecord& record,
               FuzzOutput& output, bool has_restarted = false) {
  output.Choice(static_cast<int>(action))
      .Choice(caller - 1)
      .Choice(has_restarted ? 1 : 0);
  for (const std::byte byte : Encode(record)) {
    output.Number(static_cast<uint8_t>(byte));
  }
}

TransferRecord RecordOf(const BufKey& key) {
  return {.id = 1,
          .key = key,
          .num_bytes = 16,
          .dtype = DType::kUint8,
          .incarnation = IncarnationOf(kThisTask)};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  Task task;
  for (int i = 0; i < kMaxActions && !input.empty(); ++i) task.Act(input);
  return 0;
}

std::vector<std::string> FuzzSeeds() {
  FuzzOutput requests_first;
  for (int to = 1; to < kNumTasks; ++to) {
    AddRecord(Action::kServe, to, RecordOf(KeyOf(kGeneration, to, 2)),
              requests_first);
    requests_first.Choice(static_cast<int>(Action::kPost))
        .Choice(to - 1)
        .Choice(2);
  }
  FuzzOutput offers_first;
  offers_first.Choice(static_cast<int>(Action::kPost)).Choice(0).Choice(1);
  AddRecord(Action::kServe, 1, RecordOf(KeyOf(kGeneration, 1, 1)),
            offers_first);
  FuzzOutput ends;
  AddRecord(Action::kServe, 2, RecordOf(KeyOf(kGeneration, 2, 0)), ends);
  AddRecord(Action::kCancel, 1, RecordOf(KeyOf(kGeneration, 2, 0)), ends);
  ends.Choice(static_cast<int>(Action::kEndStep));
  AddRecord(Action::kServe, 2, RecordOf(KeyOf(kGeneration, 2, 0)), ends);
  ends.Choice(static_cast<int>(Action::kEndGroup));
  FuzzOutput early;
  AddRecord(Action::kServe, 2, RecordOf(KeyOf(kGeneration + 1, 2, 0)), early);
  AddRecord(Action::kServe, 1, RecordOf(KeyOf(kGeneration + 2, 1, 0)), early);
  early.Choice(static_cast<int>(Action::kWithdraw)).Number(uint8_t{0});
  AddRecord(Action::kCancel, 2, RecordOf(KeyOf(kGeneration + 1, 2, 0)), early);
  early.Choice(static_cast<int>(Action::kNewGroup));
  early.Choice(static_cast<int>(Action::kWait));
  FuzzOutput strangers;
  strangers.Choice(static_cast<int>(Action::kPost)).Choice(0).Choice(1);
  const TransferRecord record = RecordOf(KeyOf(kGeneration, 1, 1));
  AddRecord(Action::kServe, 1, record, strangers, /*has_restarted=*/true);
  AddRecord(Action::kCancel, 1, record, strangers, /*has_restarted=*/true);
  AddRecord(Action::kServe, 2, record, strangers);
  return {requests_first.bytes(), offers_first.bytes(), strangers.bytes(),
          ends.bytes(), early.bytes()};
}

}  // namespace tutti
