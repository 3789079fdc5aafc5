// Executions that a member gives up in a step that is cleaned up: what is said
// of the step as it was before ends nothing of what it begins anew.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/control/wire_codec.h"
#include "resolvers/messages/control_codec.h"
#include "tests/cluster/given_up_testing.h"
#include "tests/cluster/simulated_cluster.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace step_anew_test {

using absl::StatusCode;
using testing::HasSubstr;

constexpr uint64_t kMostAhead = uint64_t{1} << 40;

testing::Matcher<absl::Status> IsTooFarAhead() {
  return StatusIs(StatusCode::kInvalidArgument,
                  HasSubstr(absl::StrCat("tells of is ", kMostAhead + 1,
                                         "; wanted at most ", kMostAhead)));
}

class StepAnewTest : public GivenUpFixture {
 protected:
  // What a clean-up does that task 1 begins, and that reaches all but one.
  void EndStepEverywhere(int missed = -1) {
    const uint64_t number =
        cluster_->control(1).param_resolver()->NextCleanup();
    for (int task = 0; task < num_tasks_; ++task) {
      if (task == missed) continue;
      cluster_->control(task).param_resolver()->EndStepEverywhere(
          kFirst.step_id, number);
    }
  }

  // Of task 0, by a message that knows of no clean-up.
  void AskAsTask1ForAGroupOfTwo(absl::StatusOr<proto::ControlReply>* answer) {
    const DeviceAttributes device = cluster_->Device(1, 0);
    proto::ControlRequest request;
    *request.mutable_complete_params() = *EncodeMemberCall(
        {.device = device,
         .request = std::make_shared<const CollectiveRequest>(
             AllReduceOf(kGroup, /*size=*/2, /*instance_key=*/1)),
         .number = kFirst});
    cluster_->Send({1, device.incarnation}, 0, request,
                   [answer](const ControlAnswer& reply) { *answer = reply; });
  }
};

TEST_F(StepAnewTest, WhatAStepThatIsOverHadBegunIsNotToldOthers) {
  Begin({.num_tasks = 3});
  const CallPtr waiting = Ask(0);
  const CallPtr given_up = Ask(1);
  cluster_->RunFor(absl::Seconds(1));
  ParamResolverDistributed& resolver = *cluster_->control(1).param_resolver();
  resolver.EndStepEverywhere(kFirst.step_id, /*cleanup=*/1);
  GiveUp(1, given_up);
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_TRUE(waiting->waits());
  BeginStep(1, kFirst.step_id);
  const CallPtr again = Ask(1);
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_TRUE(again->waits());
}

// Task 0 leads.
TEST_F(StepAnewTest, AStepThatIsOverForTheLeaderAloneIsGivenUpOnAllTasks) {
  Begin({.num_tasks = 4});
  size_ = 3;
  const CallPtr given_up = Ask(1);
  const CallPtr waiting = Ask(2);
  cluster_->RunFor(absl::Seconds(1));
  cluster_->control(0).param_resolver()->EndStep(kFirst.step_id);
  GiveUp(1, given_up);
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_EQ(waiting->status(), kReason);
  const CallPtr late = Ask(3);
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_EQ(late->status(), kReason);
}

TEST_F(StepAnewTest, WhatTheLeaderEndsWithItsStepIsToldATaskThatStartsLater) {
  BeginWithoutTask2();
  const CallPtr given_up = Ask(0);
  cluster_->control(0).param_resolver()->EndStep(kFirst.step_id);
  GiveUp(0, given_up);
  ExpectThatTask2IsTold();
}

TEST_F(StepAnewTest, WhatComesAfterTheStepEndsNothingOfWhatItBeginsAnew) {
  Begin({.num_tasks = 4});
  size_ = 3;  // Without task 0, which leads.
  EndStepEverywhere();
  for (int task : {1, 2, 3}) BeginStep(task, kFirst.step_id);
  EXPECT_THAT(SendAs(1, 0, 0), IsOk());
  const std::vector<CallPtr> calls = {Ask(1), Ask(2), Ask(3)};
  cluster_->RunFor(absl::Seconds(1));
  for (const CallPtr& call : calls) EXPECT_THAT(call->status(), IsOk());
  const CallPtr given_up = Ask(1, kFirst, /*key=*/2);
  const CallPtr other = Ask(2, kFirst, /*key=*/2);
  cluster_->RunFor(absl::Seconds(1));
  GiveUp(1, given_up, kFirst, /*key=*/2);
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_EQ(other->status(), kReason);
}

// Of a call that fails before it asks, and before the leader begins the step.
TEST_F(StepAnewTest, WhatIsGivenUpInAStepThatBeginsAnewEndsThere) {
  Begin({.num_tasks = 4});
  size_ = 3;  // Without task 0, which leads.
  EndStepEverywhere();
  for (int task : {1, 2, 3}) BeginStep(task, kFirst.step_id);
  GiveUpAs(1, kReason);
  cluster_->RunFor(absl::Seconds(1));
  const std::vector<CallPtr> calls = {Ask(2), Ask(3)};
  cluster_->RunFor(absl::Seconds(1));
  for (const CallPtr& call : calls) EXPECT_EQ(call->status(), kReason);
}

// Else the leader would take it for one of those that the step begins anew.
TEST_F(StepAnewTest, WhatIsAskedAfterTheStepIsRefused) {
  Begin({.num_tasks = 4});
  size_ = 3;
  EndStepEverywhere();
  absl::StatusOr<proto::ControlReply> answer = absl::UnknownError("none");
  AskAsTask1ForAGroupOfTwo(&answer);
  cluster_->RunFor(absl::Seconds(1));
  ASSERT_THAT(answer, IsOk());
  EXPECT_THAT(
      DecodeError(answer->complete_params().failure().reason()),
      StatusIs(StatusCode::kAborted, HasSubstr("step 5 has been cleaned up")));
  for (int task : {1, 2, 3}) BeginStep(task, kFirst.step_id);
  const std::vector<CallPtr> calls = {Ask(1), Ask(2), Ask(3)};
  cluster_->RunFor(absl::Seconds(1));
  for (const CallPtr& call : calls) EXPECT_THAT(call->status(), IsOk());
}

// It was withdrawn, and that is late.
TEST_F(StepAnewTest, WhatWaitsWhenTheStepIsOverIsNotMetByWhatItBeginsAnew) {
  Begin({.num_tasks = 4});
  size_ = 3;
  absl::StatusOr<proto::ControlReply> answer = absl::UnknownError("none");
  AskAsTask1ForAGroupOfTwo(&answer);
  cluster_->RunFor(absl::Seconds(1));
  EndStepEverywhere();
  for (int task : {1, 2, 3}) BeginStep(task, kFirst.step_id);
  const std::vector<CallPtr> calls = {Ask(1), Ask(2), Ask(3)};
  cluster_->RunFor(absl::Seconds(1));
  for (const CallPtr& call : calls) EXPECT_THAT(call->status(), IsOk());
  ASSERT_THAT(answer, IsOk());
  EXPECT_THAT(
      DecodeError(answer->complete_params().failure().reason()),
      StatusIs(StatusCode::kAborted, HasSubstr("step 5 has been cleaned up")));
}

// It has heard of none of the clean-ups before.
TEST_F(StepAnewTest, ARestartedTaskTakesPartInAStepThatBeginsAnew) {
  Begin({.num_tasks = 3});
  EndStepEverywhere();
  cluster_->Restart(2);
  cluster_->RunFor(absl::Seconds(1));
  ASSERT_EQ(cluster_->join_status(2), absl::OkStatus());
  for (int round = 0; round < 2; ++round) {
    for (int task : {0, 1, 2}) BeginStep(task, kFirst.step_id);
    const std::vector<CallPtr> calls = {Ask(0), Ask(1), Ask(2)};
    cluster_->RunFor(absl::Seconds(1));
    for (const CallPtr& call : calls) EXPECT_THAT(call->status(), IsOk());
    const CallPtr waiting = Ask(0, kFirst, /*key=*/2);
    cluster_->RunFor(absl::Seconds(1));
    GiveUpAs(2, kReason, kFirst, /*key=*/2);
    cluster_->RunFor(absl::Seconds(1));
    EXPECT_EQ(waiting->status(), kReason);
    EndStepEverywhere();
  }
}

TEST_F(StepAnewTest, ACleanupThatMissedATaskIsMadeUpForByTheNext) {
  for (int missed : {0, 2}) {
    SCOPED_TRACE(missed);
    Begin({.num_tasks = 3});
    EndStepEverywhere(missed);
    EndStepEverywhere();
    for (int task : {0, 1, 2}) BeginStep(task, kFirst.step_id);
    const std::vector<CallPtr> calls = {Ask(0), Ask(1), Ask(2)};
    cluster_->RunFor(absl::Seconds(1));
    for (const CallPtr& call : calls) EXPECT_THAT(call->status(), IsOk());
    for (int giver : {0, 2}) {
      const InstanceKey key = 10 + giver;
      const CallPtr waiting = Ask(2 - giver, kFirst, key);
      cluster_->RunFor(absl::Seconds(1));
      GiveUpAs(giver, kReason, kFirst, key);
      cluster_->RunFor(absl::Seconds(1));
      EXPECT_EQ(waiting->status(), kReason);
      const CallPtr late = Ask(2 - giver, kFirst, key);
      cluster_->RunFor(absl::Seconds(1));
      EXPECT_EQ(late->status(), kReason);
    }
  }
}

// A device that comes to it in a later generation would wait for ever.
TEST_F(StepAnewTest, TheLeaderHearsWhatFailsInAStepThatIsOverForItAlone) {
  Begin({.num_tasks = 4});
  size_ = 3;
  BeginStep(0, kFirst.step_id);
  cluster_->control(0).param_resolver()->EndStep(kFirst.step_id);
  for (int task : {1, 2, 3}) {
    BeginStep(task, kFirst.step_id);
    Ask(task);
  }
  cluster_->RunFor(absl::Seconds(1));
  ExecKey execution = KeyOf({kGroup, 2}, kFirst);
  execution.generation = 1;
  cluster_->control(0).param_resolver()->OnCancelled(
      {1, cluster_->Device(1, 0).incarnation}, execution, kReason);
  const CallPtr late = Ask(3, kFirst, /*key=*/2);
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_EQ(late->status(), kReason);
}

// Of an executor that is about to be cleaned up.
TEST_F(StepAnewTest, WhatIsAskedWhileTheStepIsOverOnAllTasksEnds) {
  Begin({.num_tasks = 3});
  EndStepEverywhere();
  const CallPtr call = Ask(1);
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_THAT(
      call->status(),
      StatusIs(StatusCode::kAborted, HasSubstr("step 5 has been cleaned up")));
}

TEST_F(StepAnewTest, TheLeaderRemembersThoughItComesBackToTheStep) {
  BeginWithoutTask2();
  BeginStep(0, kFirst.step_id);
  cluster_->control(0).param_resolver()->EndStep(kFirst.step_id);
  GiveUp(1, Ask(1));
  cluster_->RunFor(absl::Seconds(1));
  BeginStep(0, kFirst.step_id);
  ExpectThatTask2IsTold();
}

TEST_F(StepAnewTest, ANumberThatCannotBeOfWhoGivesUpIsRefused) {
  Begin({.num_tasks = 3});
  EXPECT_THAT(SendAs(1, 0, 0, kMostAhead), IsOk());
  EXPECT_THAT(SendAs(1, 0, 1, kMostAhead + 1), IsTooFarAhead());
}

TEST_F(StepAnewTest, ANumberThatCannotBeOfACleanupIsRefused) {
  Begin({.num_tasks = 2});
  proto::ControlRequest request;
  request.mutable_cleanup_step()->set_step(kFirst.step_id);
  request.mutable_cleanup_step()->set_number(kMostAhead + 1);
  absl::Status status = absl::UnknownError("not answered");
  cluster_->Send(
      {1, cluster_->Device(1, 0).incarnation}, 0, request,
      [&status](const ControlAnswer& answer) { status = answer.status(); });
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_THAT(status, IsTooFarAhead());
}

TEST_F(StepAnewTest, ANumberThatCannotBeOfATaskThatOneJoinsIsRefused) {
  BeginWithoutTask2();
  cluster_->control(0).param_resolver()->EndStepEverywhere(kFirst.step_id,
                                                           kMostAhead + 1);
  cluster_->Start(2);
  cluster_->RunFor(absl::Seconds(1));
  ASSERT_TRUE(cluster_->join_status(2).has_value());
  EXPECT_THAT(*cluster_->join_status(2), IsTooFarAhead());
}

}  // namespace step_anew_test
}  // namespace tutti
