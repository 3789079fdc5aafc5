// Executions that a member gives up before their instance is settled: no other
// member waits for it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/base/ended_steps.h"
#include "framework/control/wire_codec.h"
#include "resolvers/leader/given_up_executions.h"
#include "resolvers/messages/control_codec.h"
#include "tests/cluster/cluster_resolve_testing.h"
#include "tests/cluster/simulated_cluster.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace given_up_test {

constexpr CallNumber kFirst = {.step_id = 5, .execution = 0};

const absl::Status kReason = absl::DeadlineExceededError("task 1 had no time");

// A group of a simulated cluster, with one device of each task, whose members
// give up executions.
class GivenUpTest : public ClusterResolveTest {
 protected:
  void Begin(SimulatedCluster::Options options) {
    size_ = options.num_tasks;
    ClusterResolveTest::Begin(options);
  }

  CallPtr Request(int task, CallNumber number = kFirst, InstanceKey key = 1) {
    return cluster_->Request(task, 0, AllReduceOf(kGroup, size_, key), number);
  }

  CallPtr AskAndRun(int task, CallNumber number = kFirst, InstanceKey key = 1) {
    CallPtr call = Request(task, number, key);
    cluster_->RunFor(absl::Seconds(1));
    return call;
  }

  // Acts as an executor whose execution fails.
  void GiveUp(int task, const CallPtr& call, CallNumber number = kFirst,
              InstanceKey key = 1) {
    call->token->Cancel(kReason);
    GiveUpAs(task, kReason, number, key);
  }
  void GiveUpAs(int task, const absl::Status& reason,
                CallNumber number = kFirst, InstanceKey key = 1) {
    Resolver(task).GiveUp({kGroup, key}, number, reason);
  }

  // Sends the message by which `from` gives up an execution of step 5. Returns
  // the status of the answer.
  absl::Status SendAs(int from, int to, uint64_t execution) {
    proto::ControlRequest request;
    proto::CancelExecution* const cancel = request.mutable_cancel_execution();
    *cancel->mutable_key() = EncodeKey({.step = kFirst.step_id,
                                        .group = kGroup,
                                        .instance = 1,
                                        .execution = execution});
    *cancel->mutable_reason() = EncodeError(kReason);
    return Send(from, to, request).status();
  }

  // Calls on all tasks of the group and expects that the instance is settled.
  void Settle(InstanceKey key, CallNumber number) {
    std::vector<CallPtr> calls;
    for (int task = 0; task < size_; ++task) {
      calls.push_back(Request(task, number, key));
    }
    cluster_->RunFor(absl::Seconds(1));
    ExpectEnds(calls, IsOk());
  }

  // Makes the task learn of the leader's loss, by a call of another step.
  void LetFindLeaderLost(int task) {
    const CallPtr call = Request(task, {.step_id = 4});
    cluster_->RunFor(absl::Seconds(1));
    EXPECT_THAT(call->status(), IsUnavailable(cluster_->Label(0)));
  }

  int size_ = 0;  // Size of the group.
};

// A call's deadline may pass during its callback; its message must then name
// the reason.
TEST_F(GivenUpTest, ACallThatIsBeingToldSaysWhatItIsTold) {
  Begin({.num_tasks = 3});
  auto& resolver = Resolver(1);
  const auto request = std::make_shared<const CollectiveRequest>(
      AllReduceOf(kGroup, size_, /*instance_key=*/1));
  std::string said;
  resolver.CompleteParamsAsync(
      cluster_->Device(1, 0), request, kFirst, /*cancellation=*/nullptr,
      [&](const auto&) { said = resolver.DescribeWaiting(*request); });
  cluster_->RunFor(absl::Seconds(1));
  GiveUpAs(0, kReason);
  cluster_->RunFor(absl::Milliseconds(10));
  EXPECT_EQ(said, kReason.message());
  EXPECT_EQ(resolver.DescribeWaiting(*request), "");
}

// Task 0 leads; task 2 calls after the end.
TEST_F(GivenUpTest, EndsOnAllTasksAlsoForThoseThatComeLate) {
  for (int culprit : {0, 1}) {
    SCOPED_TRACE(absl::StrCat("task ", culprit, " gives up"));
    Begin({.num_tasks = 3});
    const CallPtr waiting = Request(1 - culprit);
    const CallPtr given_up = AskAndRun(culprit);
    GiveUp(culprit, given_up);
    cluster_->RunFor(absl::Milliseconds(10));
    EXPECT_EQ(waiting->status(), kReason);
    const CallPtr late = Request(2);
    cluster_->RunFor(absl::Milliseconds(10));
    EXPECT_EQ(late->status(), kReason);
    Settle(1, {.step_id = 6});
  }
}

TEST_F(GivenUpTest, EndsInAGroupThatIsFormedAndLeavesItAlone) {
  Begin({.num_tasks = 3});
  Settle(1, {.step_id = 4});
  const CallPtr waiting = Request(2, kFirst, /*key=*/2);
  const CallPtr given_up = AskAndRun(1, kFirst, /*key=*/2);
  GiveUp(1, given_up, kFirst, /*key=*/2);
  cluster_->RunFor(absl::Milliseconds(10));
  EXPECT_EQ(waiting->status(), kReason);
  const CallPtr late = Request(0, kFirst, /*key=*/2);
  EXPECT_EQ(late->status(), kReason);
  Settle(2, {.step_id = 6});
  EXPECT_EQ(cluster_->directory(0).Living().size(), 1u);
}

TEST_F(GivenUpTest, CallsOfOtherExecutionsWaitOn) {
  Begin({.num_tasks = 3});
  constexpr CallNumber kSecond = {.step_id = 5, .execution = 1};
  constexpr CallNumber kNextStep = {.step_id = 6, .execution = 0};
  std::vector<CallPtr> others = {Request(0, kSecond), Request(1, kSecond),
                                 Request(1, kNextStep)};
  const CallPtr given_up = AskAndRun(1);
  GiveUp(1, given_up);
  cluster_->RunFor(absl::Seconds(1));
  for (const CallPtr& other : others) EXPECT_TRUE(other->waits());
  others.push_back(Request(2, kSecond));
  cluster_->RunFor(absl::Seconds(1));
  for (const CallPtr& other : others) EXPECT_THAT(other->status(), IsOk());
}

TEST_F(GivenUpTest, ATaskThatStartsLaterIsTold) {
  size_ = 3;
  cluster_ = std::make_unique<SimulatedCluster>(
      SimulatedCluster::Options{.num_tasks = 3});
  for (int task : {0, 1}) cluster_->Start(task);
  cluster_->RunFor(absl::Seconds(1));
  GiveUp(1, Request(1));
  cluster_->RunFor(absl::Seconds(20));
  cluster_->Start(2);
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_EQ(AskAndRun(2)->status(), kReason);
}

TEST_F(GivenUpTest, TheNextLeaderIsToldIfTheFirstDies) {
  Begin({.num_tasks = 4});
  cluster_->Stall(0, absl::Seconds(60));
  const CallPtr given_up = Request(2);
  GiveUp(2, given_up);
  cluster_->RunFor(absl::Seconds(1));
  cluster_->Kill(0);
  LetFindLeaderLost(3);
  const CallPtr late = AskAndRun(3);
  EXPECT_EQ(late->status(), kReason);
}

// Calls made at the former leader, before all members had called.
TEST_F(GivenUpTest, WhoComesAfterTheLeaderWasLostDoesNotWaitForThoseBefore) {
  Begin({.num_tasks = 4});
  size_ = 3;  // Without the leader.
  const CallPtr first = AskAndRun(1);
  cluster_->Kill(0);
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_THAT(first->status(), IsUnavailable(cluster_->Label(0)));
  GiveUp(1, first);
  LetFindLeaderLost(2);
  const CallPtr late = AskAndRun(2);
  EXPECT_EQ(late->status(), kReason);
}

TEST_F(GivenUpTest, WhoComesAfterItsGroupFailedDoesNotWaitForThoseBefore) {
  Begin({.num_tasks = 3});
  const CallPtr first = AskAndRun(1);
  EndGroup(1, "enough");
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_EQ(first->status(), absl::AbortedError("enough"));
  GiveUpAs(1, first->status());
  cluster_->RunFor(absl::Seconds(1));
  for (int task : {0, 2}) {
    const CallPtr late = AskAndRun(task);
    EXPECT_EQ(late->status(), absl::AbortedError("enough"));
  }
}

// Settling an execution does not settle a concurrent one that was given up.
TEST_F(GivenUpTest, WhoComesWhenAnotherExecutionHasSettledItIsTold) {
  Begin({.num_tasks = 3});
  GiveUp(1, Request(1));
  cluster_->RunFor(absl::Seconds(1));
  Settle(1, {.step_id = 6});
  EXPECT_EQ(Request(2)->status(), kReason);
}

// Task 1 does not know yet that the group has ended, and is refused; task 0
// waits in the next generation.
TEST_F(GivenUpTest, NobodyWaitsInTheNextGenerationForWhoIsStillInTheFormer) {
  int num_refused = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Begin({.num_tasks = 3, .seed = seed});
    Settle(1, {.step_id = 4});
    EndGroup(0, "enough");
    const CallPtr waiting = Request(0, kFirst, /*key=*/2);
    const CallPtr refused = AskAndRun(1, kFirst, /*key=*/2);
    if (refused->waits()) continue;  // Task 1 knew of the end.
    ++num_refused;
    GiveUpAs(1, refused->status(), kFirst, /*key=*/2);
    cluster_->RunFor(absl::Seconds(1));
    EXPECT_EQ(waiting->status(), refused->status());
  }
  EXPECT_GT(num_refused, 0);
}

// Each call ends, however close in time an answer and the end are.
TEST_F(GivenUpTest, NobodyWaitsIfItIsSettledMeanwhile) {
  int num_ok = 0;
  int num_ended = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Begin({.num_tasks = 3, .seed = seed});
    const CallPtr given_up = Request(1);
    const std::vector<CallPtr> others = {Request(0), Request(2)};
    cluster_->RunFor(absl::Microseconds(20 * seed));
    GiveUp(1, given_up);
    cluster_->RunFor(absl::Seconds(1));
    for (const CallPtr& call : others) {
      ASSERT_FALSE(call->waits());
      const bool is_ok = call->status().ok();
      EXPECT_EQ(call->status(), is_ok ? absl::OkStatus() : kReason);
      ++(is_ok ? num_ok : num_ended);
    }
  }
  EXPECT_GT(num_ok, 0);
  EXPECT_GT(num_ended, 0);
}

// All tasks call every execution once, some late; some tasks give up, at any
// time.
TEST_F(GivenUpTest, EveryCallEndsHoweverManyGiveUp) {
  constexpr int kTasks = 4;
  constexpr int kSteps = 12;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Begin({.num_tasks = kTasks, .seed = seed});
    std::mt19937_64 draw(seed);
    struct Member {
      int task;
      CallNumber number;
      InstanceKey key;
      CallPtr call;
    };
    std::vector<Member> members;
    for (int step = 0; step < kSteps; ++step) {
      const auto key = static_cast<InstanceKey>(draw() % 3);
      for (int task = 0; task < kTasks; ++task) {
        members.push_back({task, {.step_id = step}, key, nullptr});
      }
    }
    // Each task calls in the order of the steps, at a separate pace.
    std::vector<size_t> next(kTasks);
    for (size_t num_left = members.size(); num_left > 0;) {
      const auto task = static_cast<size_t>(draw() % kTasks);
      if (next[task] < kSteps) {
        Member& member = members[next[task]++ * kTasks + task];
        member.call = Request(member.task, member.number, member.key);
        --num_left;
      }
      Member& other = members[draw() % members.size()];
      if (draw() % 3 == 0 && other.call != nullptr && other.call->waits()) {
        GiveUp(other.task, other.call, other.number, other.key);
      }
      cluster_->RunFor(absl::Microseconds(draw() % 3000));
    }
    cluster_->RunFor(absl::Seconds(5));
    for (const Member& member : members) {
      EXPECT_EQ(member.call->answers.size(), 1u)
          << "task " << member.task << ", step " << member.number.step_id;
    }
    ExpectNothingWaits();
  }
}

// Task 2 told its leader, but the leader died before it told other tasks.
TEST_F(GivenUpTest, TheNextLeaderIsToldIfTheFirstDiesWithWhatItKnew) {
  Begin({.num_tasks = 4});
  for (int other : {1, 3}) cluster_->Partition(0, other);
  GiveUp(2, Request(2));
  cluster_->RunFor(absl::Milliseconds(20));
  cluster_->Kill(0);
  for (int other : {1, 3}) cluster_->Heal(0, other);
  LetFindLeaderLost(2);
  LetFindLeaderLost(3);
  const CallPtr late = AskAndRun(3);
  EXPECT_EQ(late->status(), kReason);
}

// The group may lack the leader.
TEST_F(GivenUpTest, WhoIsNotInTheGroupCannotEndItsExecutions) {
  for (const std::vector<int>& members : {std::vector{1, 2}, {0, 1, 2}}) {
    Begin({.num_tasks = 4});
    size_ = static_cast<int>(members.size());
    for (int task : members) Request(task, {.step_id = 4});
    cluster_->RunFor(absl::Seconds(1));
    EXPECT_THAT(SendAs(3, 0, 0),
                IsPermissionDenied("is not in group 7 and cannot end it"));
    EXPECT_THAT(SendAs(1, 0, 0), IsOk());
  }
}

// The message names an unknown generation.
TEST_F(GivenUpTest, WhoIsNotInTheGroupCannotEndItsExecutionsOfAnyGeneration) {
  Begin({.num_tasks = 4});
  size_ = 3;
  for (int task : {0, 1, 2}) Request(task, {.step_id = 4});
  cluster_->RunFor(absl::Seconds(1));
  const CallPtr waiting = Request(0, kFirst, /*key=*/2);
  ExecKey execution = KeyOf({kGroup, 2}, kFirst);
  execution.generation = 1000;
  const auto end = [&](int task) {
    Resolver(0).OnCancelled({task, cluster_->Device(task, 0).incarnation},
                            execution, kReason);
    cluster_->RunFor(absl::Seconds(1));
  };
  end(3);
  EXPECT_TRUE(waiting->waits());
  end(1);
  EXPECT_EQ(waiting->status(), kReason);
}

TEST_F(GivenUpTest, WhoIsTakenForTheLeaderSaysThatItIsNot) {
  Begin({.num_tasks = 3});
  EXPECT_THAT(SendAs(2, 1, 0),
              IsUnavailable(cluster_->Label(1), "does not lead"));
  EXPECT_THAT(SendAs(0, 1, 0), IsOk());
}

// Steps that have ended on all tasks: the leader frees their resolvers, and
// refuses late requests.
const absl::Status kEnded = StepHasEndedError(kFirst.step_id);

// In these tests task 0 leads.
class EndedStepTest : public GivenUpTest {
 protected:
  void EndStepOn(const std::vector<int>& tasks) {
    for (int task : tasks) Resolver(task).EndStep(kFirst.step_id);
  }

  // Sends task 0 a request as a member of task 1 would, bypassing task 1's
  // resolver.
  void AskAsTask1(ControlAnswer* answer) {
    const DeviceAttributes device = cluster_->Device(1, 0);
    proto::ControlRequest request;
    *request.mutable_complete_params() =
        *EncodeMemberCall({.device = device,
                           .request = std::make_shared<const CollectiveRequest>(
                               AllReduceOf(kGroup, size_, /*instance_key=*/1)),
                           .number = kFirst});
    cluster_->Send({1, device.incarnation}, 0, request,
                   [answer](const ControlAnswer& reply) { *answer = reply; });
    cluster_->RunFor(absl::Seconds(1));
  }
  static absl::Status FailureOf(const ControlAnswer& answer) {
    if (!answer.ok()) return answer.status();
    return DecodeError(answer->complete_params().failure().reason());
  }

  // Expects that calls of all tasks in the next step are settled.
  void ExpectTheNextStepRuns() {
    std::vector<CallPtr> calls;
    for (int task = 0; task < options_.num_tasks; ++task) {
      calls.push_back(Request(task, {.step_id = kFirst.step_id + 1}));
    }
    cluster_->RunFor(absl::Seconds(1));
    ExpectEnds(calls, IsOk());
  }
};

TEST_F(EndedStepTest, WhatIsAskedAfterwardsIsRefusedOnEachTask) {
  Begin({.num_tasks = 3});
  for (int i = 0; i < 2; ++i) EndStepOn({0, 1, 2});
  for (int task : {0, 1, 2}) {
    const CallPtr call = AskAndRun(task);
    EXPECT_EQ(call->status(), kEnded);
  }
  ExpectTheNextStepRuns();
}

TEST_F(EndedStepTest, ALateQuestionIsRefusedByTheLeader) {
  Begin({.num_tasks = 3});
  EndStepOn({0});
  ControlAnswer answer = absl::UnknownError("none");
  AskAsTask1(&answer);
  EXPECT_EQ(FailureOf(answer), kEnded);
  EXPECT_EQ(Resolver(0).leader().num_waiting(), 0u);
  const CallPtr of_unaware_task = AskAndRun(2);
  EXPECT_EQ(of_unaware_task->status(), kEnded);
  ExpectTheNextStepRuns();
}

TEST_F(EndedStepTest, WhatWaitsAtTheLeaderEndsWithTheStep) {
  Begin({.num_tasks = 3});
  ControlAnswer answer = absl::UnknownError("none");
  AskAsTask1(&answer);
  const CallPtr waiting = AskAndRun(2);
  EXPECT_EQ(Resolver(0).leader().num_waiting(), 2u);
  EndStepOn({0});
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_EQ(FailureOf(answer), kEnded);
  EXPECT_EQ(waiting->status(), kEnded);
  EXPECT_EQ(Resolver(0).leader().num_waiting(), 0u);
  ExpectTheNextStepRuns();
}

TEST_F(EndedStepTest, WhatIsGivenUpAfterwardsIsNotToldOthers) {
  Begin({.num_tasks = 3});
  const CallPtr waiting = Request(0);
  const CallPtr given_up = AskAndRun(1);
  EndStepOn({1});
  GiveUp(1, given_up);
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_TRUE(waiting->waits());
  // A late message about another execution.
  EXPECT_THAT(SendAs(1, 0, 1), IsOk());
  EndStepOn({0, 2});
  EXPECT_THAT(SendAs(1, 0, 0), IsOk());
  const CallPtr late = AskAndRun(2);
  EXPECT_EQ(late->status(), kEnded);
  ExpectTheNextStepRuns();
}

}  // namespace given_up_test
}  // namespace tutti
