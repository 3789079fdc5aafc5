// Steps that have ended on all tasks: the leader frees their resolvers, and
// refuses late requests.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/base/ended_steps.h"
#include "framework/control/wire_codec.h"
#include "resolvers/messages/control_codec.h"
#include "tests/cluster/given_up_testing.h"
#include "tests/cluster/simulated_cluster.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace ended_step_test {

const absl::Status kEnded = StepHasEndedError(kFirst.step_id);

// In these tests task 0 leads.
class EndedStepTest : public GivenUpFixture {
 protected:
  ParamResolverDistributed& Resolver(int task) {
    return *cluster_->control(task).param_resolver();
  }

  void EndStepOn(const std::vector<int>& tasks) {
    for (int task : tasks) Resolver(task).EndStep(kFirst.step_id);
  }

  // Sends task 0 a request as a member of task 1 would, bypassing task 1's
  // resolver.
  void AskAsTask1(absl::StatusOr<proto::ControlReply>* answer) {
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
  static absl::Status FailureOf(
      const absl::StatusOr<proto::ControlReply>& answer) {
    if (!answer.ok()) return answer.status();
    return DecodeError(answer->complete_params().failure().reason());
  }

  // Expects that calls of all tasks in the next step are settled.
  void ExpectTheNextStepRuns() {
    std::vector<CallPtr> calls;
    for (int task = 0; task < num_tasks_; ++task) {
      calls.push_back(Request(task, {.step_id = kFirst.step_id + 1}));
    }
    cluster_->RunFor(absl::Seconds(1));
    for (const CallPtr& call : calls) EXPECT_THAT(call->status(), IsOk());
  }
};

TEST_F(EndedStepTest, WhatIsAskedAfterwardsIsRefusedOnEachTask) {
  Begin({.num_tasks = 3});
  for (int i = 0; i < 2; ++i) EndStepOn({0, 1, 2});
  for (int task : {0, 1, 2}) {
    const CallPtr call = Request(task);
    cluster_->RunFor(absl::Seconds(1));
    EXPECT_EQ(call->status(), kEnded);
  }
  ExpectTheNextStepRuns();
}

TEST_F(EndedStepTest, ALateQuestionIsRefusedByTheLeader) {
  Begin({.num_tasks = 3});
  EndStepOn({0});
  absl::StatusOr<proto::ControlReply> answer = absl::UnknownError("none");
  AskAsTask1(&answer);
  EXPECT_EQ(FailureOf(answer), kEnded);
  EXPECT_EQ(Resolver(0).leader().num_waiting(), 0u);
  const CallPtr of_unaware_task = Request(2);
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_EQ(of_unaware_task->status(), kEnded);
  ExpectTheNextStepRuns();
}

TEST_F(EndedStepTest, WhatWaitsAtTheLeaderEndsWithTheStep) {
  Begin({.num_tasks = 3});
  absl::StatusOr<proto::ControlReply> answer = absl::UnknownError("none");
  AskAsTask1(&answer);
  const CallPtr waiting = Request(2);
  cluster_->RunFor(absl::Seconds(1));
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
  const CallPtr given_up = Request(1);
  cluster_->RunFor(absl::Seconds(1));
  EndStepOn({1});
  GiveUp(1, given_up);
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_TRUE(waiting->waits());
  // A late message about another execution.
  EXPECT_THAT(SendAs(1, 0, 1), IsOk());
  EndStepOn({0, 2});
  EXPECT_THAT(SendAs(1, 0, 0), IsOk());
  const CallPtr late = Request(2);
  cluster_->RunFor(absl::Seconds(1));
  EXPECT_EQ(late->status(), kEnded);
  ExpectTheNextStepRuns();
}

}  // namespace ended_step_test
}  // namespace tutti
