#include "tutti/cluster_runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/cluster_runtime_testing.h"
#include "tests/cluster/loopback_network.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {
namespace cluster_runtime_test {

using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(Seeds, ClusterRuntimeTest,
                         testing::Range(uint64_t{1}, uint64_t{9}));

TEST_P(ClusterRuntimeTest, AllDevicesOfAllTasksGetTheSum) {
  for (int i = 0; i < 3; ++i) {
    RunOnAll();
  }
}

// Latency that the leader passed to the cost function of an algorithm.
double seen_latency = 0;

REGISTER_COLLECTIVE(
    SeesCosts,
    Scheduled({.traits = {.collectives = {CollectiveType::kAllReduce},
                          .cost_seconds =
                              [](const CostQuery& query) {
                                seen_latency =
                                    query.model.between.latency_seconds;
                                return 1e9;
                              }},
               .plan = [](const PlanRequest&) { return Schedule(); }}));

TEST_P(ClusterRuntimeTest, TheTransportSaysWhatMessagesCost) {
  RunOnAll();
  EXPECT_EQ(seen_latency, LoopbackNetwork::kCosts.between.latency_seconds);
  EXPECT_EQ(runtimes_[0]->policy().model.between.latency_seconds, seen_latency);
}

class ClusterRuntimeManyCallsTest : public ClusterRuntimeTest {};

INSTANTIATE_TEST_SUITE_P(Seeds, ClusterRuntimeManyCallsTest,
                         testing::Values(uint64_t{1}));

// The late task keeps thousands of requests of another task waiting.
TEST_P(ClusterRuntimeManyCallsTest, AllEndThoughATaskIsLateForThousands) {
  constexpr int kNumCalls = 5000;
  CollectiveRequest request = Request(1);
  request.shape = TensorShape::Vector(1);
  const auto call = [&](int task) { return &CallDevice(task, 0, request); };
  std::vector<Call*> calls = {call(0), call(1)};
  environment_.RunAll();
  for (int i = 0; i < kNumCalls; ++i) calls.push_back(call(1));
  environment_.RunAll();
  for (int i = 0; i < kNumCalls; ++i) calls.push_back(call(0));
  ExpectSums(calls, 1 + 3);
}

// Fixture whose tasks start one by one.
class ClusterRuntimeStartTest : public ClusterRuntimeTest {
 protected:
  void SetUp() override {}
};

INSTANTIATE_TEST_SUITE_P(Seeds, ClusterRuntimeStartTest,
                         testing::Range(uint64_t{1}, uint64_t{3}));

TEST_P(ClusterRuntimeStartTest, JoiningWithoutADeadlineWaitsForWhoStartsLater) {
  std::vector<Outcome> joined(kNumTasks);
  for (int task = 0; task < kNumTasks; ++task) {
    Start(task);
    runtimes_[task]->Join(absl::InfiniteFuture(), nullptr, joined[task].Set());
    environment_.RunAll();
  }
  environment_.Advance(absl::Seconds(1));
  for (const Outcome& outcome : joined) {
    EXPECT_EQ(outcome.status, absl::OkStatus());
  }
}

TEST_P(ClusterRuntimeStartTest, JoiningEndsWithTheRuntime) {
  std::vector<absl::Time> deadlines = {absl::InfiniteFuture(),
                                       After(absl::Seconds(60))};
  for (const absl::Time deadline : deadlines) {
    Start(0);
    Outcome joined;
    runtimes_[0]->Join(deadline, nullptr, joined.Set());
    environment_.RunAll();
    runtimes_[0].reset();
    EXPECT_THAT(joined.status, testing::Optional(IsCancelled(
                                   "task 0 (a:1): the runtime was destroyed")));
    environment_.RunAll();
    EXPECT_EQ(environment_.num_alarms(), 0u);
  }
}

TEST_P(ClusterRuntimeTest, NamedTensorsDoNotWaitForATaskThatWasLostBefore) {
  RunOnAll();
  LoseTask2();
  std::vector<Outcome> outcomes(2);
  for (int task : {1, 0}) {
    const Tensor tensor =
        *Tensor::Allocate(DType::kFloat32, TensorShape::Vector(7));
    Tensor output;
    runtimes_[task]->coordinator().AllReduce(
        {.name = "gradient", .input = tensor, .output = &output},
        outcomes[task].Set());
    environment_.RunAll();
  }
  environment_.Advance(absl::Seconds(6));
  for (const Outcome& outcome : outcomes) {
    EXPECT_THAT(outcome.status,
                testing::Optional(IsUnavailable("task 2 (c:1)")));
  }
}

TEST_P(ClusterRuntimeTest, ARuntimeThatIsDestroyedSaysWhich) {
  const CollectiveRequest request = Request(kNumTasks);
  const Call& waiting = CallDevice(0, 0, request);
  const Call& own = CallDevice(1, 0, request);
  environment_.RunAll();
  runtimes_[1].reset();
  environment_.RunAll();
  environment_.Advance(absl::Seconds(10));
  EXPECT_THAT(*own.outcome.status, IsCancelled("task 1 (b:1)"));
  ASSERT_TRUE(waiting.outcome.status.has_value());
  EXPECT_THAT(std::string(waiting.outcome.status->message()),
              HasSubstr("task 1 (b:1)"));
}

TEST_P(ClusterRuntimeTest, ALostTaskEndsItsGroupsByName) {
  RunOnAll();
  const CollectiveRequest request = Request(kNumTasks);
  const Call& first = CallDevice(0, 0, request);
  const Call& second = CallDevice(1, 0, request);
  LoseTask2();
  ExpectEnds({&first, &second}, IsUnavailable("task 2 (c:1)"));
}

TEST_P(ClusterRuntimeTest, TheSurvivorsFormTheNextGeneration) {
  RunOnAll();
  LoseTask2();
  for (int task : {0, 1}) {
    runtimes_[task]->ReformGroup(1, absl::UnavailableError("task 2 is gone"));
  }
  environment_.RunAll();
  ++step_;
  ExpectSums(CallAll({0, 1}), 1 + 2 + 3 + 4);
}

// Task 2 begins to count its calls at a number that the other tasks have
// passed.
TEST_P(ClusterRuntimeTest, TheNextGenerationNeedsAnotherStep) {
  ExpectSums(CallAll({0, 1}), 1 + 2 + 3 + 4);
  runtimes_[0]->ReformGroup(1, absl::AbortedError("at will"));
  environment_.RunAll();
  const auto calls = CallAll({0, 1, 2});
  environment_.RunAll();
  for (const Call* call : calls) {
    ASSERT_TRUE(call->outcome.status.has_value());
    EXPECT_THAT(call->outcome.status->message(),
                HasSubstr(absl::StrCat("needs another step than ", kStep)));
  }
}

TEST_P(ClusterRuntimeTest, AGroupThatGrowsIntoAnotherTaskNeedsAnotherStep) {
  CollectiveRequest request = Request(1);
  request.group_size = 1;
  for (int i = 0; i < 3; ++i) {
    const Call& alone = CallDevice(0, 0, request);
    environment_.RunAll();
    ASSERT_EQ(alone.outcome.status, absl::OkStatus());
  }
  runtimes_[0]->ReformGroup(1, absl::AbortedError("at will"));
  environment_.RunAll();
  request.group_size = 2;
  for (int task : {0, 1}) CallDevice(task, 0, request);
  environment_.RunAll();
  for (const Call* call : {&calls_[3], &calls_[4]}) {
    ASSERT_TRUE(call->outcome.status.has_value());
    EXPECT_THAT(call->outcome.status->message(),
                HasSubstr(absl::StrCat("needs another step than ", kStep)));
  }
}

TEST_P(ClusterRuntimeTest, AStepIsCleanedUpOnAllTasks) {
  RunOnAll();
  const CollectiveRequest request = Request(kNumTasks);
  const Call& waiting = CallDevice(0, 0, request);
  environment_.RunAll();
  CleanUp(1);
  EXPECT_THAT(waiting.outcome.status,
              testing::Optional(IsAborted("step 5 has been cleaned up")));
  ++step_;
  RunOnAll();
}

// Tasks refuse it that have not used it, and after another clean-up, too.
TEST_P(ClusterRuntimeTest, ASecondUseOfAStepIdIsRefusedOnAllTasks) {
  const CollectiveRequest request = Request(1);
  for (int task : {0, 1, 2}) {
    if (task < 2) CallDevice(task, 0, request);
    environment_.RunAll();
    CleanUp(task);
    for (Call* const call : CallAll({0, 1, 2})) {
      environment_.RunAll();
      EXPECT_THAT(call->outcome.status,
                  testing::Optional(IsFailedPrecondition("step 5 ", "twice")));
    }
  }
  ++step_;
  RunOnAll();
}

// Requests for bytes, and calls to the leader, that arrive after the clean-up.
TEST_P(ClusterRuntimeTest, WhatArrivesAfterTheCleanupIsRefused) {
  RunOnAll();
  for (int held = 0; held < kNumTasks; ++held) {
    for (const bool is_settled : {true, false}) {
      ++step_;
      network_.HoldTransfers(held);
      network_.HoldCalls(held);
      const auto calls = CallAll({0, 1, 2}, is_settled ? 1 : 100 + step_);
      environment_.RunAll();
      Outcome cleaned;
      runtimes_[(held + 1) % kNumTasks]->CleanupStep(step_, cleaned.Set());
      environment_.RunAll();
      network_.LetTransfersGo(held);
      network_.ReleaseCalls(held);
      environment_.RunAll();
      EXPECT_EQ(cleaned.status, absl::OkStatus());
      int num_refused = 0;
      for (const Call* call : calls) {
        ASSERT_TRUE(call->outcome.status.has_value());
        if (call->outcome.status->ok()) {  // It needed nothing more.
          EXPECT_EQ(call->result(), 1 + 2 + 3 + 4 + 5 + 6);
          continue;
        }
        ++num_refused;
        EXPECT_THAT(std::string(call->outcome.status->message()),
                    HasSubstr("has been cleaned up"));
      }
      EXPECT_GT(num_refused, 0);
      ++step_;
      RunOnAll();
    }
  }
}

// The executor's holder may call on, and hurts nothing of the next step.
TEST_P(ClusterRuntimeTest, ALateCallOfAStepFailsNothingOfTheNext) {
  RunOnAll();
  const auto before = runtimes_[1]->manager().FindOrCreate(kStep);
  CleanUp(1);
  ++step_;
  for (const InstanceKey instance : {1, 2}) {
    CollectiveRequest request = Request(kNumTasks);
    request.instance_key = instance;
    CallLate(before, 1, request);
    ExpectSums(CallAll({0, 1, 2}, instance), 1 + 2 + 3 + 4 + 5 + 6);
  }
}

// Ends the step on one task; then no task waits for it.
TEST_P(ClusterRuntimeTest, WhatACleanupOfOneTaskEndsEndsOnAll) {
  for (const bool is_settled : {true, false}) {
    ++step_;
    if (is_settled) {
      RunOnAll();
    }
    CollectiveRequest request = Request(kNumTasks);
    request.instance_key = is_settled ? 1 : 2;
    std::vector<Call*> calls;
    for (int task : {0, 1, 2}) calls.push_back(&CallDevice(task, 0, request));
    environment_.RunAll();
    runtimes_[1]->manager().Cleanup(step_);
    environment_.RunAll();
    for (const Call* call : calls) {
      ASSERT_TRUE(call->outcome.status.has_value());
      EXPECT_THAT(std::string(call->outcome.status->message()),
                  HasSubstr("has been cleaned up"));
    }
  }
}

TEST_P(ClusterRuntimeTest, NobodyLeavesBeforeAllAreDone) {
  std::vector<Outcome> left(kNumTasks);
  for (int task : {0, 1}) {
    runtimes_[task]->Leave(After(absl::Seconds(30)), left[task].Set());
  }
  environment_.RunAll();
  EXPECT_FALSE(left[0].status.has_value());
  EXPECT_FALSE(left[1].status.has_value());
  runtimes_[2]->Leave(After(absl::Seconds(30)), left[2].Set());
  environment_.RunAll();
  for (const Outcome& outcome : left) {
    EXPECT_EQ(outcome.status, absl::OkStatus());
  }
}

TEST_P(ClusterRuntimeTest, LeavingDoesNotWaitForATaskThatIsGone) {
  network_.Cut(2);
  std::vector<Outcome> left(2);
  for (int task : {0, 1}) {
    runtimes_[task]->Leave(After(absl::Seconds(60)), left[task].Set());
  }
  environment_.RunAll();
  environment_.Advance(absl::Seconds(6));
  for (const Outcome& outcome : left) {
    EXPECT_EQ(outcome.status, absl::OkStatus());
  }
}

TEST_P(ClusterRuntimeTest, LeavingSaysWhoIsNotDone) {
  Outcome left;
  runtimes_[0]->Leave(After(absl::Seconds(30)), left.Set());
  environment_.RunAll();
  environment_.Advance(absl::Seconds(31));
  EXPECT_THAT(left.status, testing::Optional(IsDeadlineExceeded(
                               "task 0 (a:1) is done",
                               "task 1 (b:1), task 2 (c:1) did not")));
}

TEST_P(ClusterRuntimeTest, LeavingEndsWithTheRuntime) {
  Outcome left;
  runtimes_[0]->Leave(After(absl::Seconds(30)), left.Set());
  environment_.RunAll();
  runtimes_[0].reset();
  EXPECT_THAT(left.status, testing::Optional(IsCancelled(
                               "task 0 (a:1): the runtime was destroyed")));
  environment_.RunAll();
  environment_.Advance(absl::Seconds(31));
}

TEST_P(ClusterRuntimeTest, SaysHowATaskIs) {
  Outcome ok, unknown;
  runtimes_[0]->CheckHealth("/job:worker/replica:0/task:1", absl::Seconds(5),
                            ok.Set());
  runtimes_[0]->CheckHealth("/job:worker/replica:0/task:7", absl::Seconds(5),
                            unknown.Set());
  environment_.RunAll();
  environment_.Advance(absl::Seconds(6));
  EXPECT_EQ(ok.status, absl::OkStatus());
  ASSERT_TRUE(unknown.status.has_value());
  EXPECT_EQ(unknown.status->code(), absl::StatusCode::kInvalidArgument);
}

// Tests that destroy a runtime, and so its devices, while calls run.
class ClusterRuntimeEndTest : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Algorithms, ClusterRuntimeEndTest,
                         testing::Values("LocalReduce",
                                         "RecursiveDoublingReduce",
                                         "RecursiveHalvingDoublingReduce",
                                         "RingReduce", "ShuffleReduce",
                                         "TreeReduce"));

TEST_P(ClusterRuntimeEndTest, WhatAWorkerHasLeftOfARuntimeThatIsGoneEnds) {
  constexpr int kNumDevices = 4;
  CollectiveRequest request;
  request.group_size = kNumDevices;
  request.op = AllReduce{};
  request.shape = TensorShape::Vector(1 << 20);  // Workers share it.
  request.impl_details.implementation = GetParam();
  const auto shared = std::make_shared<const CollectiveRequest>(request);
  int num_before = 0;
  int num_works = 0;  // Works of the queue that ran before the end.
  for (; num_before < kNumDevices; ++num_works) {
    SimulatedEnvironment environment(/*seed=*/1);
    LoopbackNetwork network(ThreeTasks(0), environment.get().queue,
                            /*part_elements=*/100);
    auto runtime = *ClusterRuntime::Create(
        {.cluster = {.addresses = {"a:1"}},
         .environment = environment.get(),
         .devices_per_task = kNumDevices,
         .make_transport = [&](uint64_t incarnation)
             -> absl::StatusOr<std::shared_ptr<Transport>> {
           return network.Connect(0, incarnation);
         }});
    std::vector<Tensor> outputs(kNumDevices);
    int num_done = 0;
    for (int device = 0; device < kNumDevices; ++device) {
      runtime->manager().FindOrCreate(1)->ExecuteAsync(
          {.device = runtime->devices()[device],
           .request = shared,
           .input = *Tensor::Allocate(request.dtype, request.shape),
           .output = &outputs[device]},
          [&num_done](const absl::Status&) { ++num_done; });
    }
    environment.RunSome(num_works);
    num_before = num_done;
    runtime.reset();
    environment.RunAll();
    ASSERT_EQ(num_done, kNumDevices) << num_works;
  }
  EXPECT_GT(num_works, 1);
}

TEST(ClusterRuntimeOptionsTest, RefusesWhatMakesNoCluster) {
  SimulatedEnvironment environment(1);
  LoopbackNetwork network(ThreeTasks(0), environment.get().queue,
                          /*part_elements=*/100);
  const ClusterRuntime::Options good = {
      .cluster = {.addresses = {"a:1"}},
      .environment = environment.get(),
      .make_transport = [&](uint64_t incarnation)
          -> absl::StatusOr<std::shared_ptr<Transport>> {
        return network.Connect(0, incarnation);
      }};
  EXPECT_THAT(ClusterRuntime::Create(good), IsOk());
  const auto expect_refused =
      [&](const std::function<void(ClusterRuntime::Options&)>& spoil,
          const std::string& text) {
        ClusterRuntime::Options options = good;
        spoil(options);
        EXPECT_THAT(ClusterRuntime::Create(std::move(options)).status(),
                    IsInvalidArgument(text));
      };
  expect_refused([](auto& options) { options.cluster.addresses.clear(); },
                 "1 to 65536 tasks");
  expect_refused([](auto& options) { options.devices_per_task = 0; },
                 "1 to 1024 devices; asked for were 0");
  const std::string lacks = "the environment lacks a work queue, a clock";
  expect_refused([](auto& options) { options.environment.queue = nullptr; },
                 lacks);
  expect_refused([](auto& options) { options.environment.clock = nullptr; },
                 lacks);
  expect_refused([](auto& options) { options.environment.random = nullptr; },
                 lacks);
  expect_refused([](auto& options) { options.make_transport = nullptr; },
                 "nothing is given to make a transport");
  expect_refused(
      [](auto& options) {
        options.rules = std::make_shared<SelectionRules>(
            SelectionRules{{{.implementation = "Nobody"}}});
      },
      "a rule of all_reduce for Nobody: no implementation is named");
  expect_refused([](auto& options) { options.coordinator.fusion_bytes = -1; },
                 "fusion_bytes is -1");
  expect_refused(
      [](auto& options) {
        options.coordinator.stall_report_after = absl::Seconds(-2);
      },
      "stall_report_after is -2s");
  expect_refused(
      [](auto& options) {
        options.make_transport =
            [](uint64_t) -> absl::StatusOr<std::shared_ptr<Transport>> {
          return nullptr;
        };
      },
      "the transport that was made is null");
}

}  // namespace cluster_runtime_test
}  // namespace tutti
