// Tests how calls that fail, give up or are aborted end on all tasks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/cluster_runtime_testing.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/tensor.h"

namespace tutti {
namespace failed_calls_test {

using ::testing::AnyOf;
using ::testing::Eq;

// Status with which the first device of `task` cancelled its call.
absl::Status NotThisTimeOf(int task) {
  return absl::CancelledError(
      absl::StrCat("not this time (/job:worker/replica:0/task:", task,
                   "/device:CPU:0 cancelled its call)"));
}

class FailedCallsTest : public ClusterRuntimeTest {};

INSTANTIATE_TEST_SUITE_P(Seeds, FailedCallsTest,
                         testing::Range(uint64_t{1}, uint64_t{9}));

TEST_P(FailedCallsTest, ADeadlineThatPassesNamesWhoIsMissingOnAllTasks) {
  const CollectiveRequest request = Request(kNumTasks);
  std::vector<Call*> calls;
  for (int device = 0; device < kDevices; ++device) {
    calls.push_back(&CallDevice(0, device, request, After(absl::Seconds(3))));
    calls.push_back(&CallDevice(1, device, request, After(absl::Seconds(3))));
  }
  environment_.RunAll();
  environment_.Advance(absl::Seconds(4));
  ExpectEnds(calls, IsDeadlineExceeded("4 of 6 members had joined"));
}

TEST_P(FailedCallsTest, AnExecutionThatFailsEndsOnAllTasks) {
  RunOnAll();
  const CollectiveRequest request = Request(kNumTasks);
  std::vector<Call*> calls;
  calls.push_back(&CallDevice(0, 0, request, After(absl::Seconds(1))));
  calls.push_back(&CallDevice(0, 1, request));
  calls.push_back(&CallDevice(1, 0, request));
  calls.push_back(&CallDevice(1, 1, request));
  calls.push_back(&CallDevice(2, 0, request));
  environment_.RunAll();
  environment_.Advance(absl::Seconds(2));
  ExpectEnds(calls, IsDeadlineExceeded("called by /job:worker/replica:0/"
                                       "task:0/device:CPU:0",
                                       "run phase"));
  const Call& late = CallDevice(2, 1, request);
  environment_.RunAll();
  ASSERT_TRUE(late.outcome.status.has_value());
  EXPECT_EQ(late.outcome.status, calls[0]->outcome.status);
}

// Devices that call late receive the same error.
TEST_P(FailedCallsTest, AFailureEndsThoseWhoWaitForMembersOfTheirOwnTask) {
  CollectiveRequest request = Request(kNumTasks);
  request.impl_details.implementation = "LocalThenRing";
  for (int task = 0; task < kNumTasks; ++task) {
    CallDevice(task, 0, request);
    CallDevice(task, 1, request);
  }
  environment_.RunAll();
  for (const bool is_late : {false, true}) {
    std::vector<Call*> calls;
    if (!is_late) calls.push_back(&CallDevice(2, 0, request));
    calls.push_back(&CallDevice(0, 0, request, After(absl::Seconds(1))));
    calls.push_back(&CallDevice(0, 1, request));
    calls.push_back(&CallDevice(1, 0, request));
    environment_.RunAll();
    environment_.Advance(absl::Seconds(2));
    if (is_late) calls.push_back(&CallDevice(2, 0, request));
    environment_.RunAll();
    for (const Call* call : calls) {
      ASSERT_TRUE(call->outcome.status.has_value());
    }
    calls.push_back(&CallDevice(1, 1, request));
    calls.push_back(&CallDevice(2, 1, request));
    environment_.RunAll();
    ExpectEnds(calls,
               IsDeadlineExceeded("called by /job:worker/replica:0/task:0/"
                                  "device:CPU:0"));
  }
}

TEST_P(FailedCallsTest, AFailureEndsThoseWhoWaitForWhatTheyDependOn) {
  CollectiveRequest first = Request(kNumTasks);
  first.group_size = kNumTasks;
  CollectiveRequest second = first;
  second.instance_key = 2;
  second.impl_details.dependencies = {{first.group_key, first.instance_key}};
  for (int task = 0; task < kNumTasks; ++task) {
    CallDevice(task, 0, first);
    CallDevice(task, 0, second);
  }
  environment_.RunAll();
  std::vector<Call*> calls;
  for (int task = 0; task < kNumTasks; ++task) {
    calls.push_back(&CallDevice(
        task, 0, second,
        task == 0 ? After(absl::Seconds(1)) : absl::InfiniteFuture()));
  }
  environment_.RunAll();
  environment_.Advance(absl::Seconds(2));
  ExpectEnds(calls, IsDeadlineExceeded("dependencies"));
}

// The culprit's task ends and forgets the execution as soon as the group is
// settled. Other tasks may learn of the settled group after the failure.
TEST_P(FailedCallsTest, ABufferThatDoesNotFitEndsTheFirstCallOnAllTasks) {
  for (int culprit = 0; culprit < kNumTasks; ++culprit) {
    CollectiveRequest request = Request(kNumTasks);
    request.group_key = culprit + 1;
    std::vector<Call*> calls;
    for (int i = 0; i < kNumTasks; ++i) {
      const int task = (culprit + i) % kNumTasks;
      for (int device = 0; device < kDevices; ++device) {
        Call& call = calls_.emplace_back();
        if (task == culprit) {
          call.output =
              *Tensor::Allocate(request.dtype, TensorShape::Vector(7));
        }
        CallDevice(task, device, request, call);
        calls.push_back(&call);
      }
    }
    environment_.RunAll();
    ExpectEnds(calls, IsInvalidArgument("7"));
  }
}

TEST_P(FailedCallsTest, ACallThatGivesUpBeforeItIsSettledEndsOnAllTasks) {
  const CollectiveRequest request = Request(kNumTasks);
  std::vector<Call*> calls;
  calls.push_back(&CallDevice(1, 0, request, After(absl::Seconds(1))));
  calls.push_back(&CallDevice(1, 1, request));
  calls.push_back(&CallDevice(0, 0, request));
  calls.push_back(&CallDevice(2, 1, request));
  environment_.RunAll();
  environment_.Advance(absl::Seconds(2));
  calls.push_back(&CallDevice(0, 1, request));  // Late calls.
  calls.push_back(&CallDevice(2, 0, request));
  environment_.RunAll();
  ExpectEnds(calls, IsDeadlineExceeded("called by /job:worker/replica:0/task:1/"
                                       "device:CPU:0"));
  RunOnAll();
}

// Other tasks may already know how the call is settled, and run it.
TEST_P(FailedCallsTest, ACallThatGivesUpJustAsItIsSettledEndsOnAllTasks) {
  bool are_all_ok = false;
  for (int num_events = 0; !are_all_ok; ++num_events) {
    ASSERT_LT(num_events, 10'000);
    CollectiveRequest request = Request(kNumTasks);
    request.group_key = num_events + 1;
    const auto cancellation = std::make_shared<Cancellation>();
    std::vector<Call*> calls;
    for (int task : {1, 0, 2}) {
      for (int device = 0; device < kDevices; ++device) {
        Call& call = calls_.emplace_back();
        if (calls.empty()) call.cancellation = cancellation;
        CallDevice(task, device, request, call);
        calls.push_back(&call);
      }
    }
    environment_.RunSome(num_events);
    cancellation->Cancel(absl::CancelledError("not this time"));
    environment_.RunAll();
    are_all_ok = true;
    for (const Call* call : calls) {
      ASSERT_TRUE(call->outcome.status.has_value());
      if (call->outcome.status->ok()) continue;
      are_all_ok = false;
      EXPECT_EQ(call->outcome.status, NotThisTimeOf(/*task=*/1));
    }
  }
}

TEST_P(FailedCallsTest, WhatIsPreparedRunsNothingThatWasGivenUp) {
  const CollectiveRequest request = Request(kNumTasks);
  const Call& given_up = CallDevice(1, 0, request, After(absl::Seconds(1)));
  CallDevice(1, 1, request, After(absl::Seconds(1)));
  environment_.RunAll();
  environment_.Advance(absl::Seconds(2));
  std::vector<std::shared_ptr<PreparedCollective>> prepared;
  std::vector<Tensor> outputs(kNumTasks * kDevices);
  for (int task = 0; task < kNumTasks; ++task) {
    for (int device = 0; device < kDevices; ++device) {
      runtimes_[task]->manager().FindOrCreate(step_)->Prepare(
          {.device = runtimes_[task]->devices()[device],
           .request = std::make_shared<const CollectiveRequest>(request),
           .input = *Tensor::Allocate(request.dtype, request.shape),
           .output = &outputs[task * kDevices + device]},
          [&prepared](auto made) {
            ASSERT_THAT(made, IsOk());
            prepared.push_back(*std::move(made));
          });
    }
  }
  environment_.RunAll();
  ASSERT_EQ(prepared.size(), outputs.size());
  // Devices that gave up their first call are already in the next execution.
  std::deque<Outcome> outcomes;
  const auto start_all = [&] {
    for (const auto& part : prepared) {
      part->Start(outcomes.emplace_back().Set());
    }
    environment_.RunAll();
  };
  start_all();
  int num_given_up = 0;
  for (const Outcome& outcome : outcomes) {
    if (outcome.status == given_up.outcome.status) ++num_given_up;
  }
  EXPECT_EQ(num_given_up, (kNumTasks - 1) * kDevices);
  start_all();
  environment_.Advance(absl::Seconds(1));
  int num_ok = 0;
  for (const Outcome& outcome : outcomes) {
    if (outcome.status == absl::OkStatus()) ++num_ok;
  }
  EXPECT_EQ(num_ok, kNumTasks * kDevices);
  runtimes_[0]->ReformGroup(request.group_key, absl::AbortedError("enough"));
  environment_.RunAll();
}

TEST_P(FailedCallsTest, CallsOfAnAbortedStepEndOnAllTasks) {
  const absl::Status reason = absl::AbortedError("task 1 has had enough");
  runtimes_[1]->manager().FindOrCreate(step_)->StartAbort(reason);
  const auto calls = CallAll({0, 1, 2});
  environment_.RunAll();
  ExpectEnds(calls, reason);
}

// Covers an instance settled before the abort: nobody requests bytes of it.
TEST_P(FailedCallsTest, LaterCallsOfAnAbortedStepEndOnAllTasks) {
  const auto call_all = [&] {
    std::vector<Call*> calls;
    for (int task = 0; task < kNumTasks; ++task) {
      CollectiveRequest request = Request(kNumTasks);
      request.group_size = kNumTasks;
      request.op = Broadcast{.is_source = task == 0};
      Call& call = calls_.emplace_back();
      runtimes_[task]->manager().FindOrCreate(step_)->ExecuteAsync(
          {.device = runtimes_[task]->devices()[0],
           .request = std::make_shared<const CollectiveRequest>(request),
           .input = task == 0 ? *Tensor::Allocate(request.dtype, request.shape)
                              : Tensor(),
           .output = &call.output},
          call.outcome.Set());
      calls.push_back(&call);
    }
    environment_.RunAll();
    return calls;
  };
  ExpectEnds(call_all(), IsOk());
  const absl::Status reason = absl::AbortedError("task 2 has had enough");
  runtimes_[2]->manager().FindOrCreate(step_)->StartAbort(reason);
  for (const Call* call : call_all()) {
    EXPECT_THAT(call->outcome.status,  // Some calls may have ended before.
                AnyOf(Eq(reason), Eq(absl::OkStatus())));
  }
  EXPECT_EQ(calls_.back().outcome.status, reason);
}

class FailedCallsStressTest : public ClusterRuntimeTest {};

INSTANTIATE_TEST_SUITE_P(Seeds, FailedCallsStressTest,
                         testing::Range(uint64_t{1}, uint64_t{301}));

// All members take part in all executions, some late.
TEST_P(FailedCallsStressTest, EveryCallEndsHoweverManyGiveUpAndReform) {
  std::mt19937_64 draw(GetParam());
  constexpr int kSteps = 30;
  constexpr int kMembers = kNumTasks * kDevices;
  std::vector<int> next(kMembers);
  CollectiveRequest request = Request(kNumTasks);
  for (int num_left = kSteps * kMembers; num_left > 0;) {
    const auto member = static_cast<int>(draw() % kMembers);
    if (next[member] < kSteps) {
      step_ = kStep + next[member]++;
      Call& call = calls_.emplace_back();
      call.cancellation = std::make_shared<Cancellation>();
      request.instance_key = step_ % 3;
      CallDevice(member / kDevices, member % kDevices, request, call);
      --num_left;
    }
    environment_.RunSome(static_cast<int>(draw() % 20));
    if (draw() % 5 == 0 && !calls_.empty()) {
      calls_[draw() % calls_.size()].cancellation->Cancel(
          absl::CancelledError("at will"));
    }
    if (draw() % 40 == 0) {
      runtimes_[draw() % kNumTasks]->ReformGroup(request.group_key,
                                                 absl::AbortedError("at will"));
    }
  }
  environment_.RunAll();
  environment_.Advance(absl::Seconds(60));
  for (size_t i = 0; i < calls_.size(); ++i) {
    EXPECT_TRUE(calls_[i].outcome.status.has_value()) << "call " << i;
  }
}

// The second device of each task is not a member.
TEST_P(FailedCallsTest, WhatFailedBeforeItWasSettledHoldsNobodyBack) {
  CollectiveRequest first = Request(kNumTasks);
  first.group_size = kNumTasks;
  CollectiveRequest second = first;
  second.instance_key = 2;
  second.impl_details.dependencies = {{first.group_key, first.instance_key}};
  for (int task = 0; task < kNumTasks; ++task) {
    Call& call = calls_.emplace_back();
    call.cancellation = std::make_shared<Cancellation>();
    call.cancellation->Cancel(absl::CancelledError("not this time"));
    CallDevice(task, 0, first, call);
    CallDevice(task, 0, second);
  }
  environment_.RunAll();
  for (int i = 0; i < 2 * kNumTasks; ++i) {
    EXPECT_EQ(calls_[i].outcome.status,
              i % 2 == 0 ? NotThisTimeOf(/*task=*/i / 2) : absl::OkStatus());
  }
}

}  // namespace failed_calls_test
}  // namespace tutti
