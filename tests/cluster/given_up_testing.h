#ifndef TUTTI_TESTS_CLUSTER_GIVEN_UP_TESTING_H_
#define TUTTI_TESTS_CLUSTER_GIVEN_UP_TESTING_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/control/wire_codec.h"
#include "resolvers/messages/control_codec.h"
#include "tests/cluster/simulated_cluster.h"

namespace tutti {

inline constexpr CallNumber kFirst = {.step_id = 5, .execution = 0};

inline const absl::Status kReason =
    absl::DeadlineExceededError("task 1 had no time");

// A group of a simulated cluster, with one device of each task, whose members
// give up executions.
class GivenUpFixture : public testing::Test {
 protected:
  using CallPtr = SimulatedCluster::CallPtr;

  void Begin(SimulatedCluster::Options options) {
    num_tasks_ = size_ = options.num_tasks;
    cluster_ = std::make_unique<SimulatedCluster>(options);
    cluster_->StartAll();
  }

  // Starts two of three tasks.
  void BeginWithoutTask2() {
    size_ = 3;
    cluster_ = std::make_unique<SimulatedCluster>(
        SimulatedCluster::Options{.num_tasks = 3});
    cluster_->Start(0);
    cluster_->Start(1);
    cluster_->RunFor(absl::Seconds(1));
  }

  // Starts task 2 much later, and expects its call to end with kReason.
  void ExpectThatTask2IsTold() {
    cluster_->RunFor(absl::Seconds(20));
    cluster_->Start(2);
    cluster_->RunFor(absl::Seconds(1));
    const CallPtr late = Request(2);
    cluster_->RunFor(absl::Seconds(1));
    EXPECT_EQ(late->status(), kReason);
  }

  CallPtr Request(int task, CallNumber number = kFirst, InstanceKey key = 1) {
    return cluster_->Request(task, 0, AllReduceOf(kGroup, size_, key), number);
  }

  // Acts as an executor whose execution fails.
  void GiveUp(int task, const CallPtr& call, CallNumber number = kFirst,
              InstanceKey key = 1) {
    call->token->Cancel(kReason);
    GiveUpAs(task, kReason, number, key);
  }
  void GiveUpAs(int task, const absl::Status& reason,
                CallNumber number = kFirst, InstanceKey key = 1) {
    cluster_->control(task).param_resolver()->GiveUp({kGroup, key}, number,
                                                     reason);
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
    absl::Status status = absl::UnknownError("not answered");
    cluster_->Send(
        {from, cluster_->Device(from, 0).incarnation}, to, request,
        [&status](const ControlAnswer& answer) { status = answer.status(); });
    cluster_->RunFor(absl::Seconds(1));
    return status;
  }

  int num_tasks_ = 0;
  int size_ = 0;  // Size of the group.
  std::unique_ptr<SimulatedCluster> cluster_;
};

}  // namespace tutti

#endif  // TUTTI_TESTS_CLUSTER_GIVEN_UP_TESTING_H_
