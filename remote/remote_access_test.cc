// Tests of the remote access of a task: transfers with other tasks, ends of
// executions, groups and steps, and calls that act on a step while it ends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "framework/base/ended_steps.h"
#include "framework/base/mutex.h"
#include "remote/collective_remote_access.h"
#include "tests/cluster/loopback_network.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/params.h"

namespace tutti {
namespace remote_access_test {

constexpr int kNumTasks = 3;
constexpr int64_t kStep = 5;
constexpr GroupKey kGroup = 7;

ClusterSpec Cluster(int this_task) {
  return {.addresses = {"a:1", "b:1", "c:1"}, .this_task = this_task};
}

uint64_t IncarnationOf(int task) { return 100 + task; }

// Sender or receiver of a transfer; records its callbacks.
class Side : public Sender, public Receiver {
 public:
  explicit Side(size_t num_bytes) : bytes(num_bytes) {
    std::iota(reinterpret_cast<uint8_t*>(bytes.data()),
              reinterpret_cast<uint8_t*>(bytes.data()) + num_bytes, uint8_t{1});
  }

  absl::Status OnPart(int32_t, size_t offset,
                      absl::Span<const std::byte> part) override {
    EXPECT_EQ(offset, num_received);
    if (part.data() == bytes.data() + offset) {
      ++num_in_place;
    } else {
      std::memcpy(bytes.data() + offset, part.data(), part.size());
    }
    num_received += part.size();
    return part_status;
  }
  void OnDelivery(int32_t, absl::Status status, Delivery delivery) override {
    EXPECT_FALSE(end.has_value());
    if (delivery.sender != nullptr) {
      bytes.assign(delivery.bytes.begin(), delivery.bytes.end());
      delivery.Release(absl::OkStatus());
    }
    end = std::move(status);
  }
  void OnReleased(int32_t, absl::Status status) override {
    EXPECT_FALSE(end.has_value());
    end = std::move(status);
  }

  std::vector<std::byte> bytes;
  bool says_where = false;
  size_t num_received = 0;
  size_t num_in_place = 0;  // Counts parts.
  absl::Status part_status;
  std::optional<absl::Status> end;
};

// Request of another task for 8 bytes; records its answer.
class AnsweredRequest : public ServedRequest {
 public:
  AnsweredRequest(const ControlCaller& caller, const BufKey& key)
      : ServedRequest(caller, key, {.num_bytes = 8, .dtype = DType::kUint8}) {}

  std::optional<absl::Status> end;

 private:
  void OnAnswer(absl::Status status, const Delivery&) override {
    EXPECT_FALSE(end.has_value());
    end = std::move(status);
  }
};

// Part of a task's runtime that messages of other tasks reach.
class Task : public ControlService {
 public:
  Task(LoopbackNetwork* network, const Environment& environment, int task,
       CollectiveRemoteAccess::Options options)
      : transport(network->Connect(task, IncarnationOf(task))) {
    options.cluster = Cluster(task);
    options.environment = environment;
    options.groups = groups;
    options.transport = transport;
    access = CollectiveRemoteAccess::Create(options);
    groups->SetListener(
        [this](GroupKey group, uint64_t) { access->OnGroupChange(group); });
    EXPECT_THAT(transport->Start(this, access.get()), IsOk());
    step = access->ForStep(kStep);
  }

  void Handle(const ControlCaller& caller, const proto::ControlRequest& request,
              std::shared_ptr<Cancellation>, ControlDone done) override {
    const auto& key = request.cancel_execution().key();
    const auto& reason = request.cancel_execution().reason();
    cancel_status = access->CancelFromPeer(
        caller,
        {key.generation(), key.step(), key.group(), key.instance(),
         key.execution()},
        absl::Status(static_cast<absl::StatusCode>(reason.code()),
                     reason.message()));
    std::move(done)(proto::ControlReply());
  }

  std::shared_ptr<GroupDirectory> groups = std::make_shared<GroupDirectory>();
  std::shared_ptr<Transport> transport;
  std::shared_ptr<CollectiveRemoteAccess> access;
  std::unique_ptr<PeerAccessInterface> step;
  absl::Status cancel_status;
};

// Rank i of the group is in task i.
class CollectiveRemoteAccessTest : public testing::TestWithParam<uint64_t> {
 protected:
  void SetUp() override {
    for (int task = 0; task < kNumTasks; ++task) Start(task, {});
  }

  void Start(int task, CollectiveRemoteAccess::Options options) {
    tasks_[task] = std::make_unique<Task>(&network_, environment_.get(), task,
                                          std::move(options));
    tasks_[task]->groups->Add(Group(/*generation=*/1));
  }

  static std::shared_ptr<const CollGroupParams> Group(uint64_t generation) {
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

  static BufKey Key(int from, int to, uint64_t generation = 1) {
    return {{generation, kStep, kGroup, 1, 1}, 0, from, to};
  }
  static CollGroupMember Member(int rank) { return Group(1)->members[rank]; }

  void Send(const BufKey& key, Side* side) {
    tasks_[key.from]->step->PostToPeer(Member(key.to), key,
                                       {.bytes = side->bytes,
                                        .dtype = DType::kUint8,
                                        .incarnation = IncarnationOf(key.from),
                                        .sender = side});
  }
  void Receive(const BufKey& key, Side* side) {
    tasks_[key.to]->step->RecvFromPeer(
        Member(key.from), key,
        {.num_bytes = side->bytes.size(),
         .dtype = DType::kUint8,
         .incarnation = IncarnationOf(key.from),
         .receiver = side,
         .into = side->says_where ? absl::MakeSpan(side->bytes)
                                  : absl::Span<std::byte>()});
  }

  // Returns a task's answer to a request that `caller` makes in its name.
  std::optional<absl::Status> AnswerTo(const ControlCaller& caller,
                                       const BufKey& key, int task = 0) {
    const auto request = std::make_shared<AnsweredRequest>(caller, key);
    tasks_[task]->access->Serve(request);
    environment_.RunAll();
    tasks_[task]->access->Withdraw(request, absl::CancelledError("withdrawn"));
    return request->end;
  }

  void ExpectNothingLeft() {
    environment_.RunAll();
    for (const auto& task : tasks_) {
      EXPECT_EQ(task->access->num_served(), 0);
      EXPECT_EQ(task->access->num_receiving(), 0);
    }
  }

  SimulatedEnvironment environment_{GetParam()};
  LoopbackNetwork network_{Cluster(0), environment_.get().queue,
                           /*part_elements=*/64};
  std::vector<std::unique_ptr<Task>> tasks_{kNumTasks};
};

INSTANTIATE_TEST_SUITE_P(Seeds, CollectiveRemoteAccessTest,
                         testing::Range(uint64_t{1}, uint64_t{9}));

TEST_P(CollectiveRemoteAccessTest, BytesGoToAnotherTaskInParts) {
  Side sent(1001), received(1001);
  received.bytes.assign(1001, std::byte{0});
  Receive(Key(0, 1), &received);
  Send(Key(0, 1), &sent);
  environment_.RunAll();
  EXPECT_EQ(sent.end, absl::OkStatus());
  EXPECT_EQ(received.end, absl::OkStatus());
  EXPECT_EQ(received.num_received, 1001);
  EXPECT_EQ(received.bytes, sent.bytes);
  EXPECT_EQ(received.num_in_place, 0);
  ExpectNothingLeft();
}

TEST_P(CollectiveRemoteAccessTest, PartsMayBePutWhereTheyGo) {
  Side sent(1001), received(1001);
  received.bytes.assign(1001, std::byte{0});
  received.says_where = true;
  Receive(Key(0, 1), &received);
  Send(Key(0, 1), &sent);
  environment_.RunAll();
  EXPECT_EQ(received.end, absl::OkStatus());
  EXPECT_EQ(received.bytes, sent.bytes);
  EXPECT_GT(received.num_in_place, 0);
  ExpectNothingLeft();
}

TEST_P(CollectiveRemoteAccessTest, AnErrorOfTheReceiverReachesTheSender) {
  Side sent(1001), received(1001);
  received.part_status = absl::DataLossError("a part");
  Receive(Key(0, 1), &received);
  Send(Key(0, 1), &sent);
  environment_.RunAll();
  EXPECT_EQ(sent.end, absl::DataLossError("a part"));
  EXPECT_EQ(received.end, absl::DataLossError("a part"));
  ExpectNothingLeft();
}

TEST_P(CollectiveRemoteAccessTest, BothSidesLearnOfDifferentSizes) {
  Side sent(8), received(16);
  Receive(Key(0, 1), &received);
  Send(Key(0, 1), &sent);
  environment_.RunAll();
  const auto error = IsInvalidArgument("offers 8 bytes", "wants 16 bytes");
  EXPECT_THAT(*sent.end, error);
  EXPECT_THAT(*received.end, error);
}

TEST_P(CollectiveRemoteAccessTest, ACancelledExecutionEndsOnAllTasks) {
  Side sent(8), received(8), later(8);
  Send(Key(0, 1), &sent);         // Not requested.
  Receive(Key(1, 2), &received);  // Not offered.
  environment_.RunAll();
  const absl::Status reason = absl::DataLossError("rank 0 has failed");
  std::vector<std::vector<absl::Status>> reported(kNumTasks);
  for (int task = 0; task < kNumTasks; ++task) {
    tasks_[task]->step->WatchEnds(
        [&reported, task](const ExecKey& exec, const absl::Status& why) {
          EXPECT_EQ(exec, Key(0, 1).exec);
          reported[task].push_back(why);
        });
  }
  tasks_[0]->step->CancelExecution(*Group(1), Key(0, 1).exec, reason);
  environment_.RunAll();
  EXPECT_EQ(sent.end, reason);
  for (int task = 0; task < kNumTasks; ++task) {
    EXPECT_THAT(tasks_[task]->cancel_status, IsOk());
    EXPECT_EQ(tasks_[task]->step->StatusOf(Key(0, 1).exec), reason);
    EXPECT_EQ(reported[task], task == 0 ? std::vector<absl::Status>()
                                        : std::vector<absl::Status>{reason});
  }
  Receive(Key(0, 1), &later);
  environment_.RunAll();
  EXPECT_EQ(later.end, reason);
  EXPECT_EQ(received.end, reason);
  ExpectNothingLeft();
}

// Requests to other tasks whose keys differ in one field.
TEST_P(CollectiveRemoteAccessTest, AnExecutionThatIsCancelledEndsNoOther) {
  const BufKey key = Key(0, 1);
  std::vector<BufKey> others(8, key);
  ++others[0].exec.execution;
  --others[1].exec.execution;
  ++others[2].exec.instance;
  --others[3].exec.instance;
  ++others[4].exec.group;
  --others[5].exec.group;
  ++others[6].exec.generation;
  --others[7].exec.generation;
  BufKey last = key;
  last.tag = 9;
  last.from = 2;
  Side first(4), second(4), of_next_step(4);
  std::deque<Side> sides;
  Receive(key, &first);
  Receive(last, &second);
  for (const BufKey& other : others) Receive(other, &sides.emplace_back(4));
  const auto next = tasks_[1]->access->ForStep(kStep + 1);
  BufKey of_next = key;
  ++of_next.exec.step;
  next->RecvFromPeer(Member(0), of_next,
                     {.num_bytes = 4, .receiver = &of_next_step});
  const absl::Status reason = absl::AbortedError("it alone");
  EXPECT_THAT(tasks_[1]->access->CancelFromPeer({0, IncarnationOf(0)}, key.exec,
                                                reason),
              IsOk());
  environment_.RunAll();
  EXPECT_EQ(first.end, reason);
  EXPECT_EQ(second.end, reason);
  for (const Side& side : sides) EXPECT_NE(side.end, reason);
  EXPECT_FALSE(of_next_step.end.has_value());
  tasks_[1]->step->StartAbort(absl::CancelledError("over"));
  environment_.RunAll();
  for (const Side& side : sides) EXPECT_TRUE(side.end.has_value());
  EXPECT_FALSE(of_next_step.end.has_value());
  next->StartAbort(absl::CancelledError("over"));
  environment_.RunAll();
  EXPECT_TRUE(of_next_step.end.has_value());
}

// Ends them together: the cost does not depend on their number.
TEST_P(CollectiveRemoteAccessTest, AGroupThatEndsEndsAllItsExecutionsAtOnce) {
  const auto group = Group(1);
  BufKey other = Key(0, 1), lends = Key(1, 2), late = Key(2, 1);
  ++other.exec.execution;
  ++lends.exec.instance;
  late.exec.instance += 2;
  Side first(4), second(4), lent(4), comes_late(4);
  Receive(Key(0, 1), &first);
  Receive(other, &second);
  Send(lends, &lent);
  const absl::Status reason = absl::UnavailableError("a task is lost");
  group->cancellation->Cancel(reason);
  const int64_t before = network_.num_calls();
  tasks_[1]->step->CancelExecution(*group, Key(0, 1).exec,
                                   absl::AbortedError("of its own"));
  Receive(late, &comes_late);
  EXPECT_EQ(network_.num_calls(), before);
  environment_.RunAll();
  for (const Side* side : {&first, &second, &lent, &comes_late}) {
    EXPECT_EQ(side->end, reason);
  }
  ExpectNothingLeft();
}

TEST_P(CollectiveRemoteAccessTest, UnreadBytesAreReleasedWhenTheirScopeEnds) {
  const absl::Status reason = absl::DeadlineExceededError("late");
  const std::function<void(Task&)> ways[] = {
      [&](Task& task) {
        task.step->CancelExecution(*Group(1), Key(0, 1).exec, reason);
      },
      [&](Task& task) {
        const auto group = Group(1);
        group->cancellation->Cancel(reason);
        task.step->CancelExecution(*group, Key(0, 1).exec, reason);
      },
      [&](Task& task) { task.step->StartAbort(reason); }};
  for (const auto& end : ways) {
    SetUp();
    network_.Stop(1);
    Side sent(8), other(8), received(8), other_received(8);
    BufKey of_next_step = Key(0, 1);
    ++of_next_step.exec.step;
    Send(Key(0, 1), &sent);
    Receive(Key(0, 1), &received);
    Send(of_next_step, &other);
    Receive(of_next_step, &other_received);
    environment_.RunAll();
    EXPECT_FALSE(sent.end.has_value());
    end(*tasks_[0]);
    EXPECT_EQ(sent.end, reason);
    EXPECT_FALSE(other.end.has_value());
    environment_.RunAll();
    network_.Resume(1);
    environment_.RunAll();
    EXPECT_EQ(received.end, reason);
    EXPECT_EQ(other.end, absl::OkStatus());
  }
}

TEST_P(CollectiveRemoteAccessTest, CancellingTellsEachTaskOnce) {
  const int64_t before = network_.num_calls();
  tasks_[0]->step->CancelExecution(*Group(1), Key(0, 1).exec,
                                   absl::DataLossError("first"));
  environment_.RunAll();
  tasks_[1]->step->CancelExecution(*Group(1), Key(0, 1).exec,
                                   absl::DataLossError("second"));
  environment_.RunAll();
  EXPECT_EQ(network_.num_calls() - before, kNumTasks - 1);
}

TEST_P(CollectiveRemoteAccessTest, AStrangerCannotCancelAnExecution) {
  EXPECT_THAT(
      tasks_[0]->access->CancelFromPeer({.task = 1, .incarnation = 99},
                                        Key(0, 1).exec, absl::UnknownError("")),
      IsPermissionDenied("task 1 (b:1), incarnation 99, is not in group 7"));
}

TEST_P(CollectiveRemoteAccessTest, ATaskThatIsCutOffEndsWhatIsAskedOfIt) {
  Side received(8);
  Receive(Key(0, 1), &received);
  environment_.RunAll();
  network_.Cut(0);
  environment_.RunAll();
  EXPECT_THAT(*received.end, IsUnavailable("task 0 (a:1)"));
}

TEST_P(CollectiveRemoteAccessTest, SaysWhatMembersOfOneTaskWaitForAlone) {
  // Groups with another task: a request there does not concern this group's
  // members.
  Side requested(8);
  Receive(Key(0, 1), &requested);
  environment_.RunAll();
  EXPECT_EQ(tasks_[0]->step->DescribeWaiting(*Group(1), Key(0, 1).exec), "");

  CollGroupParams group = *Group(1);
  group.key = kGroup + 1;
  for (int rank = 0; rank < kNumTasks; ++rank) {
    group.members[rank].device.name = {"worker", 0, 0, "CPU", rank};
  }
  BufKey key = Key(2, 1);
  key.exec.group = group.key;
  Side awaited(8);
  tasks_[0]->step->RecvFromPeer(group.members[2], key,
                                {.num_bytes = 8, .receiver = &awaited});
  EXPECT_EQ(tasks_[0]->step->DescribeWaiting(group, key.exec),
            "data of rank 2 for rank 1 (tag 0)");
  for (const int task : {0, 1}) {
    tasks_[task]->step->StartAbort(absl::CancelledError("over"));
  }
  ExpectNothingLeft();
}

TEST_P(CollectiveRemoteAccessTest, SaysForWhomAnExecutionWaits) {
  Side first(8), second(8);
  Receive(Key(0, 2), &first);
  Receive(Key(1, 2), &second);
  EXPECT_EQ(
      tasks_[2]->step->DescribeWaiting(*Group(1), Key(0, 2).exec),
      "data of rank 0 (/job:worker/replica:0/task:0/device:CPU:0), rank 1 "
      "(/job:worker/replica:0/task:1/device:CPU:0)");
  tasks_[2]->step->StartAbort(absl::CancelledError("over"));
  ExpectNothingLeft();
}

TEST_P(CollectiveRemoteAccessTest, SaysWhoHasNotAskedForWhatIsSent) {
  Side lent(8), received(8);
  Send(Key(0, 1), &lent);
  environment_.RunAll();
  EXPECT_EQ(tasks_[0]->step->DescribeWaiting(*Group(1), Key(0, 1).exec),
            "rank 1 (/job:worker/replica:0/task:1/device:CPU:0) to ask for "
            "data");
  Receive(Key(0, 1), &received);
  environment_.RunAll();
  EXPECT_THAT(*lent.end, IsOk());
  EXPECT_EQ(tasks_[0]->step->DescribeWaiting(*Group(1), Key(0, 1).exec), "");
  ExpectNothingLeft();
}

// A step ends when its transport goes, or on all tasks.
TEST_P(CollectiveRemoteAccessTest, WhatComesLateForAStepThatHasEndedIsRefused) {
  const std::vector<std::function<void(Task&)>> ways = {
      [](Task& task) { task.step.reset(); },
      [](Task& task) { task.access->EndStep(kStep); },
      [](Task& task) {
        task.step->StartAbort(absl::DataLossError("why"));
        task.access->EndStep(kStep);
      }};
  for (const auto& end : ways) {
    SetUp();
    for (int i = 0; i < 2; ++i) end(*tasks_[0]);
    Side received(8);
    Receive(Key(0, 1), &received);
    environment_.RunAll();
    EXPECT_EQ(received.end, StepHasEndedError(kStep));
    EXPECT_THAT(
        tasks_[0]->access->CancelFromPeer({1, IncarnationOf(1)}, Key(0, 1).exec,
                                          absl::AbortedError("late")),
        IsOk());
    ExpectNothingLeft();
  }
}

// The former owner may still hold the transport.
TEST_P(CollectiveRemoteAccessTest, AStepThatHasEndedLendsAndReceivesNothing) {
  Side waiting(8), sent(8), received(8), local(8);
  Receive(Key(0, 1), &waiting);
  environment_.RunAll();
  for (int i = 0; i < 2; ++i) tasks_[1]->access->EndStep(kStep);
  Send(Key(1, 2), &sent);
  BufKey other = Key(0, 1);
  other.tag = 1;
  Receive(other, &received);
  const BufKey to_itself = Key(2, 1);
  tasks_[1]->step->RecvFromPeer(Member(1), to_itself,
                                {.num_bytes = 8, .receiver = &local});
  environment_.RunAll();
  for (const Side* side : {&waiting, &sent, &received, &local}) {
    EXPECT_EQ(side->end, StepHasEndedError(kStep));
  }
  ExpectNothingLeft();
}

// The request waits here, and the report of its end is on its way.
TEST_P(CollectiveRemoteAccessTest, ARequestThatArrivesAfterTheEndIsRefused) {
  network_.HoldTransfers(1);
  Side received(8), sent(8);
  Receive(Key(0, 1), &received);
  environment_.RunAll();
  tasks_[0]->access->EndStep(kStep);
  Send(Key(0, 1), &sent);
  network_.LetTransfersGo(1);
  environment_.RunAll();
  EXPECT_EQ(received.end, StepHasEndedError(kStep));
  EXPECT_EQ(sent.end, StepHasEndedError(kStep));
  ExpectNothingLeft();
}

TEST_P(CollectiveRemoteAccessTest,
       TellsWhatFailsInAnAbortedStepUnlessItIsOver) {
  const auto num_reported = [&](const char* why) {
    const int64_t before = network_.num_calls();
    tasks_[0]->step->CancelExecution(*Group(1), Key(0, 1).exec,
                                     absl::AbortedError(why));
    environment_.RunAll();
    return network_.num_calls() - before;
  };
  tasks_[0]->step->StartAbort(absl::AbortedError("had enough"));
  EXPECT_EQ(num_reported("aborted"), kNumTasks - 1);
  EXPECT_EQ(num_reported("again"), 0);
  tasks_[0]->step->ForgetExecution(Key(0, 1).exec);
  tasks_[0]->access->EndStep(kStep);
  EXPECT_EQ(num_reported("over"), 0);
}

// The resolver remembers such failures.
TEST_P(CollectiveRemoteAccessTest, AFailureOfAnUnknownGroupIsNotFound) {
  const ExecKey exec = Key(0, 1, /*generation=*/2).exec;
  EXPECT_THAT(tasks_[1]->access->CancelFromPeer({0, IncarnationOf(0)}, exec,
                                                absl::AbortedError("late")),
              IsNotFound("generation 2 of group 7 is not known here"));
  tasks_[1]->groups->Add(Group(2));
  EXPECT_THAT(tasks_[1]->step->StatusOf(exec), IsOk());
}

TEST_P(CollectiveRemoteAccessTest, AnAskMayComeBeforeItsGroupIsKnown) {
  Side sent(8), received(8);
  tasks_[1]->groups->Add(Group(2));
  Receive(Key(0, 1, /*generation=*/2), &received);
  environment_.RunAll();
  EXPECT_FALSE(received.end.has_value());
  tasks_[0]->groups->Add(Group(2));
  Send(Key(0, 1, /*generation=*/2), &sent);
  environment_.RunAll();
  EXPECT_EQ(received.end, absl::OkStatus());
  ExpectNothingLeft();
  EXPECT_EQ(environment_.num_alarms(), 0);
}

TEST_P(CollectiveRemoteAccessTest, AnAskForAGroupThatNeverComesEnds) {
  Side received(8);
  Receive(Key(0, 1, /*generation=*/2), &received);
  environment_.RunAll();
  environment_.Advance(absl::Seconds(31));
  EXPECT_THAT(*received.end,
              IsNotFound("task 0 (a:1) has not heard of this group"));
  ExpectNothingLeft();
}

TEST_P(CollectiveRemoteAccessTest, AnAskInAGenerationThatEndsEnds) {
  Side received(8), late(8);
  Receive(Key(0, 1), &received);
  environment_.RunAll();
  tasks_[0]->groups->End(kGroup, 1, absl::UnavailableError("task 2 was lost"));
  environment_.RunAll();
  const auto error =
      IsUnavailable("generation 1 of group 7 has ended: task 2 was lost");
  EXPECT_THAT(*received.end, error);
  Receive(Key(0, 1), &late);
  environment_.RunAll();
  EXPECT_THAT(*late.end, error);
  ExpectNothingLeft();
}

TEST_P(CollectiveRemoteAccessTest, RefusesAnAskForAnothersBytes) {
  const ControlCaller one{1, IncarnationOf(1)};
  EXPECT_EQ(AnswerTo(one, Key(0, 1)), absl::CancelledError("withdrawn"));
  EXPECT_THAT(*AnswerTo(one, Key(0, 2)),
              IsPermissionDenied("but task 1 (b:1) asks"));
  EXPECT_THAT(*AnswerTo(one, Key(2, 1)),
              IsInvalidArgument("not in task 0 (a:1)"));
  for (const int rank : {-1, kNumTasks, 1 << 30}) {
    EXPECT_THAT(*AnswerTo(one, Key(rank, 1)),
                IsInvalidArgument("the group has 3 ranks"));
    EXPECT_THAT(*AnswerTo(one, Key(0, rank)),
                IsInvalidArgument("the group has 3 ranks"));
  }
  EXPECT_THAT(*AnswerTo({1, 99}, Key(0, 1)), IsFailedPrecondition("restarted"));
  ExpectNothingLeft();
}

// Counts requests with known and unknown groups.
TEST_P(CollectiveRemoteAccessTest, RefusesATaskMoreAsksThanItsBound) {
  Start(0, {.max_waiting_requests = 2});
  const auto serve = [&](int to, uint64_t generation) {
    auto request = std::make_shared<AnsweredRequest>(
        ControlCaller{to, IncarnationOf(to)}, Key(0, to, generation));
    tasks_[0]->access->Serve(request);
    return request;
  };
  const auto known = serve(1, 1), early = serve(1, 9), refused = serve(1, 8),
             of_other = serve(2, 1);
  EXPECT_FALSE(known->end.has_value());
  EXPECT_FALSE(early->end.has_value());
  EXPECT_THAT(refused->end,
              testing::Optional(IsResourceExhausted(
                  "task 0 (a:1) already has 2 requests of task 1")));
  EXPECT_FALSE(of_other->end.has_value());
  environment_.Advance(absl::Seconds(31));
  EXPECT_TRUE(early->end.has_value());
  const auto again = serve(1, 8);  // Room again.
  EXPECT_FALSE(again->end.has_value());
  environment_.Advance(absl::Seconds(31));
  tasks_[0]->step.reset();
  ExpectNothingLeft();
}

// --- Races -------------------------------------------------------------------

// Answers every request at once, and sends no messages to other tasks.
class PromptTransport : public Transport,
                        public ControlChannel,
                        public TransferChannel {
 public:
  ControlChannel& control() override { return *this; }
  TransferChannel& transfers() override { return *this; }
  absl::Status Start(ControlService*, TransferService*) override {
    return absl::OkStatus();
  }
  void Drop(const ControlCaller&, const absl::Status&) override {}
  void Shutdown() override {}
  void Call(int, proto::ControlRequest, ControlCallOptions,
            ControlDone done) override {
    std::move(done)(proto::ControlReply());
  }
  void Request(int, const BufKey&, const RecvRequest& recv) override {
    recv.receiver->OnDelivery(recv.id, absl::OkStatus(), {});
  }
  void Cancel(const Choice&, const absl::Status&) override {}
  std::vector<BufKey> UnderWay(const Choice&) override { return {}; }
};

class CountingReceiver : public Receiver {
 public:
  void OnDelivery(int32_t, absl::Status status, Delivery) override {
    EXPECT_FALSE(absl::IsAlreadyExists(status));
    ++num_reported;
    last_status = std::move(status);
  }

  int num_reported = 0;
  absl::Status last_status;
};

std::shared_ptr<CollectiveRemoteAccess> AccessOver(
    std::shared_ptr<Transport> transport, const Environment& environment) {
  return CollectiveRemoteAccess::Create(
      {.cluster = {.addresses = {"a:1", "b:1", "c:1"}, .this_task = 1},
       .environment = environment,
       .groups = std::make_shared<GroupDirectory>(),
       .transport = std::move(transport)});
}

template <typename ItsTransport>
std::shared_ptr<CollectiveRemoteAccess> AccessOver(
    const Environment& environment) {
  return AccessOver(std::make_shared<ItsTransport>(), environment);
}

TEST(CollectiveRemoteAccessRaceTest, AReceiveThatIsCancelledAsItBeginsEnds) {
  constexpr int kReceives = 20'000;
  DefaultEnvironment environment(1);
  auto access = AccessOver<PromptTransport>(environment.get());
  CollGroupParams group;
  group.members.push_back({{.name = {"worker", 0, 0, "CPU", 0}}});
  group.cancellation = std::make_shared<Cancellation>();
  BufKey key = {{1, kStep, kGroup, 1, 1}, 0, 0, 1};
  auto step = access->ForStep(kStep);
  std::atomic<bool> are_all_received{false};
  std::thread canceller([&, exec = key.exec] {
    while (!are_all_received) {
      step->CancelExecution(group, exec, absl::AbortedError("at will"));
      step->ForgetExecution(exec);
    }
  });
  CountingReceiver receiver;
  for (key.tag = 0; key.tag < kReceives; ++key.tag) {
    step->RecvFromPeer(group.members[0], key, {.receiver = &receiver});
  }
  are_all_received = true;
  canceller.join();
  EXPECT_EQ(receiver.num_reported, kReceives);
  EXPECT_EQ(access->num_receiving(), 0);
  step.reset();
  const std::weak_ptr<CollectiveRemoteAccess> left = access;
  access.reset();
  EXPECT_TRUE(left.expired());
}

// Answers no request.
class HoldingTransport : public PromptTransport {
 public:
  void Request(int, const BufKey& key, const RecvRequest& recv) override {
    MutexLock lock(&mu_);
    EXPECT_TRUE(requests_.emplace(key, recv).second);
  }
  void Cancel(const Choice& choice, const absl::Status& reason) override {
    std::vector<RecvRequest> ended;
    {
      MutexLock lock(&mu_);
      absl::erase_if(requests_, [&](const auto& request) {
        if (!choice(request.first)) return false;
        ended.push_back(request.second);
        return true;
      });
    }
    for (const RecvRequest& recv : ended) {
      recv.receiver->OnDelivery(recv.id, reason, {});
    }
  }
  std::vector<BufKey> UnderWay(const Choice& choice) override {
    std::vector<BufKey> keys;
    MutexLock lock(&mu_);
    for (const auto& [key, recv] : requests_) {
      if (choice(key)) keys.push_back(key);
    }
    return keys;
  }

 private:
  Mutex mu_;
  absl::flat_hash_map<BufKey, RecvRequest> requests_ ABSL_GUARDED_BY(mu_);
};

// Calls a function on delivery.
class ReceiverThat : public Receiver {
 public:
  explicit ReceiverThat(std::function<void()> act) : act_(std::move(act)) {}
  void OnDelivery(int32_t, absl::Status, Delivery) override { act_(); }

 private:
  const std::function<void()> act_;
};

TEST(CollectiveRemoteAccessRaceTest, ACancellationEndsNoRequestThatItCauses) {
  SimulatedEnvironment environment(/*seed=*/1);
  const auto access = AccessOver<HoldingTransport>(environment.get());
  CollGroupParams group;
  group.members.push_back({{.name = {"worker", 0, 0, "CPU", 0}}});
  group.cancellation = std::make_shared<Cancellation>();
  const BufKey key = {{1, kStep, kGroup, 1, 1}, 0, 0, 1};
  const auto step = access->ForStep(kStep);
  CountingReceiver second;
  // Request again, as the next execution with the same key does.
  ReceiverThat first([&] {
    step->ForgetExecution(key.exec);
    step->RecvFromPeer(group.members[0], key, {.receiver = &second});
  });
  step->RecvFromPeer(group.members[0], key, {.receiver = &first});
  step->CancelExecution(group, key.exec, absl::AbortedError("at will"));
  EXPECT_EQ(access->num_receiving(), 1);
  EXPECT_EQ(second.num_reported, 0);
  step->StartAbort(absl::AbortedError("at will"));
  EXPECT_EQ(second.num_reported, 1);
}

// Both sides of transfers, called on any thread.
class CountingSide : public Sender, public Receiver {
 public:
  void OnReleased(int32_t, absl::Status status) override { Count(status); }
  void OnDelivery(int32_t, absl::Status status, Delivery delivery) override {
    if (delivery.sender != nullptr) delivery.Release(absl::OkStatus());
    Count(status);
  }

  std::atomic<int> num_reported{0};
  std::atomic<int> num_failed{0};

 private:
  void Count(const absl::Status& status) {
    if (!status.ok()) ++num_failed;
    ++num_reported;
  }
};

TEST(CollectiveRemoteAccessRaceTest, WhatActsWhileItsStepEndsEndsOnce) {
  constexpr int kRounds = 2'000;
  constexpr int kTags = 3;
  DefaultEnvironment environment(1);
  const auto access = AccessOver<HoldingTransport>(environment.get());
  const CollGroupMember here = {{.name = {"worker", 0, 1, "CPU", 0}}};
  CollGroupParams group;
  group.members.push_back({{.name = {"worker", 0, 0, "CPU", 0}}});
  group.cancellation = std::make_shared<Cancellation>();
  const auto key = [](int64_t step, int tag) {
    return BufKey{{1, step, kGroup, 1, 1}, tag, 0, 1};
  };
  CountingSide sides;
  std::unique_ptr<PeerAccessInterface> transport;
  std::barrier meet(2);
  std::thread member([&] {
    for (int64_t step = 0; step < kRounds; ++step) {
      meet.arrive_and_wait();
      if (step % 3 == 0) transport->StartAbort(absl::AbortedError("why"));
      if (step % 3 == 1) {
        transport->CancelExecution(group, key(step, 0).exec,
                                   absl::AbortedError("why"));
      }
      for (int tag = 0; tag < kTags; ++tag) {
        transport->PostToPeer(here, key(step, tag), {.sender = &sides});
        transport->RecvFromPeer(group.members[0], key(step, tag),
                                {.receiver = &sides});
      }
      meet.arrive_and_wait();
    }
  });
  for (int64_t step = 0; step < kRounds; ++step) {
    transport = access->ForStep(step);
    meet.arrive_and_wait();
    access->EndStep(step);
    meet.arrive_and_wait();
    EXPECT_EQ(sides.num_reported, 2 * kTags * (step + 1)) << "step " << step;
    EXPECT_EQ(access->num_receiving(), 0) << "step " << step;
  }
  member.join();
  EXPECT_EQ(sides.num_failed, sides.num_reported);
}

}  // namespace remote_access_test
}  // namespace tutti
