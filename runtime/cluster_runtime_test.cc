#include "tutti/cluster_runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "remote/transport.h"
#include "tests/cluster/loopback_network.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"
#include "tutti/tensor.h"

namespace tutti {
namespace cluster_runtime_test {

using ::testing::AnyOf;
using ::testing::Eq;

// Matches a status, of any code, whose message has `text`.
MATCHER_P(Says, text, "") {
  *result_listener << arg.ToString();
  return absl::StrContains(arg.message(), text);
}

ClusterSpec ThreeTasks(int this_task) {
  return {.addresses = {"a:1", "b:1", "c:1"}, .this_task = this_task};
}

// Fixture with all tasks of a cluster. The seed decides the order of messages.
class ClusterRuntimeTest : public testing::TestWithParam<uint64_t> {
 protected:
  static constexpr int kNumTasks = 3;
  static constexpr int kDevices = 2;
  static constexpr int64_t kStep = 5;

  // Result of an asynchronous operation.
  struct Outcome {
    std::optional<absl::Status> status;  // Unset until the operation ends.

    StatusCallback Set() {
      return [this](absl::Status ended) {
        EXPECT_FALSE(status.has_value());
        status = std::move(ended);
      };
    }
    friend absl::Status EndOf(const Outcome& outcome) {
      return outcome.status.value_or(absl::UnknownError("not ended"));
    }
  };

  // A call of a device. All elements of the output have the same value.
  struct Call {
    Outcome outcome;
    Tensor output;
    std::shared_ptr<Cancellation> cancellation;  // May be null.

    float result() const {
      return reinterpret_cast<const float*>(output.data())[0];
    }
    friend absl::Status EndOf(const Call& call) { return EndOf(call.outcome); }
  };

  void SetUp() override {
    for (int task = 0; task < kNumTasks; ++task) Start(task);
    Join();
  }
  void TearDown() override {
    for (auto& runtime : runtimes_) runtime.reset();
    environment_.RunAll();
  }

  void Start(int task) {
    auto runtime = ClusterRuntime::Create(
        {.cluster = ThreeTasks(task),
         .environment = environment_.get(),
         .devices_per_task = kDevices,
         .make_transport = [this, task](uint64_t incarnation)
             -> absl::StatusOr<std::shared_ptr<Transport>> {
           return network_.Connect(task, incarnation);
         }});
    ASSERT_THAT(runtime, IsOk());
    runtimes_[task] = *std::move(runtime);
  }

  void Join() {
    std::vector<Outcome> joined(kNumTasks);
    for (int task = 0; task < kNumTasks; ++task) {
      runtimes_[task]->Join(After(absl::Seconds(60)), nullptr,
                            joined[task].Set());
    }
    environment_.RunAll();
    ExpectEnds(Pointers(joined), IsOk());
  }

  absl::Time After(absl::Duration duration) {
    return environment_.get().clock->Now() + duration;
  }

  static CollectiveRequest Request(int num_tasks) {
    CollectiveRequest request;
    request.group_key = 1;
    request.group_size = num_tasks * kDevices;
    request.instance_key = 1;
    request.op = AllReduce{};
    request.shape = TensorShape::Vector(1001);
    return request;
  }

  // Calls with an input whose elements are all the device's rank + 1.
  Call& CallDevice(int task, int device, const CollectiveRequest& request,
                   absl::Time deadline = absl::InfiniteFuture()) {
    Call& call = calls_.emplace_back();
    CallDevice(task, device, request, call, deadline);
    return call;
  }
  void CallDevice(int task, int device, const CollectiveRequest& request,
                  Call& call, absl::Time deadline = absl::InfiniteFuture()) {
    Tensor input = *Tensor::Allocate(request.dtype, request.shape);
    std::fill_n(reinterpret_cast<float*>(input.mutable_data()),
                input.num_elements(),
                static_cast<float>(task * kDevices + device + 1));
    runtimes_[task]->manager().FindOrCreate(step_)->ExecuteAsync(
        {.device = runtimes_[task]->devices()[device],
         .request = std::make_shared<const CollectiveRequest>(request),
         .input = std::move(input),
         .output = &call.output,
         .deadline = deadline,
         .cancellation = call.cancellation},
        call.outcome.Set());
  }

  std::vector<Call*> CallAll(const std::vector<int>& tasks,
                             InstanceKey instance = 1) {
    CollectiveRequest request = Request(static_cast<int>(tasks.size()));
    request.instance_key = instance;
    std::vector<Call*> calls;
    for (int task : tasks) {
      for (int device = 0; device < kDevices; ++device) {
        calls.push_back(&CallDevice(task, device, request));
      }
    }
    return calls;
  }

  void RunOnAll() { ExpectSums(CallAll({0, 1, 2}), 1 + 2 + 3 + 4 + 5 + 6); }

  // Cuts task 2 off, and lets the other tasks notice.
  void LoseTask2() {
    environment_.RunAll();
    network_.Cut(2);
    environment_.RunAll();
    environment_.Advance(absl::Seconds(6));
  }

  // Ends the present step on all tasks.
  void CleanUp(int task) {
    Outcome cleaned;
    runtimes_[task]->CleanupStep(step_, cleaned.Set());
    environment_.RunAll();
    EXPECT_EQ(cleaned.status, absl::OkStatus());
  }

  static std::vector<const Outcome*> Pointers(
      const std::vector<Outcome>& outcomes) {
    std::vector<const Outcome*> pointers;
    for (const Outcome& outcome : outcomes) pointers.push_back(&outcome);
    return pointers;
  }

  // Runs all work, then expects that each call has ended with this sum.
  void ExpectSums(const std::vector<Call*>& calls, float sum) {
    environment_.RunAll();
    for (const Call* call : calls) {
      ASSERT_EQ(call->outcome.status, absl::OkStatus());
      EXPECT_EQ(call->result(), sum);
    }
  }

  SimulatedEnvironment environment_{GetParam()};
  LoopbackNetwork network_{ThreeTasks(0), environment_.get().queue,
                           /*part_elements=*/100};
  int64_t step_ = kStep;
  std::deque<Call> calls_;
  std::vector<std::unique_ptr<ClusterRuntime>> runtimes_{kNumTasks};
};

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
  ExpectEnds(Pointers(joined), IsOk());
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
    ExpectEnds({&joined},
               IsCancelled("task 0 (a:1): the runtime was destroyed"));
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
  ExpectEnds(Pointers(outcomes), IsUnavailable("task 2 (c:1)"));
}

TEST_P(ClusterRuntimeTest, ARuntimeThatIsDestroyedSaysWhich) {
  const CollectiveRequest request = Request(kNumTasks);
  const Call& waiting = CallDevice(0, 0, request);
  const Call& own = CallDevice(1, 0, request);
  environment_.RunAll();
  runtimes_[1].reset();
  environment_.RunAll();
  environment_.Advance(absl::Seconds(10));
  ExpectEnds({&own}, IsCancelled("task 1 (b:1)"));
  ExpectEnds({&waiting}, Says("task 1 (b:1)"));
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
  ExpectEnds(calls, Says(absl::StrCat("needs another step than ", kStep)));
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
  ExpectEnds({&calls_[3], &calls_[4]},
             Says(absl::StrCat("needs another step than ", kStep)));
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
    const auto calls = CallAll({0, 1, 2});
    environment_.RunAll();
    ExpectEnds(calls, IsFailedPrecondition("step 5 ", "twice"));
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
        EXPECT_THAT(*call->outcome.status, Says("has been cleaned up"));
      }
      EXPECT_GT(num_refused, 0);
      ++step_;
      RunOnAll();
    }
  }
}

// Task 2 stands still: bytes that others send to it stay unread.
TEST_P(ClusterRuntimeTest, WhatATaskHasNotReadDelaysNoEndOfItsSender) {
  const auto end_by = [&](const char* what, auto&& end) {
    SCOPED_TRACE(what);
    ++step_;
    RunOnAll();
    network_.Stop(2);
    const CollectiveRequest request = Request(kNumTasks);
    const absl::Time deadline = After(absl::Seconds(1));
    std::vector<Call*> calls;
    for (const int task : {0, 1, 2}) {
      for (int device = 0; device < kDevices; ++device) {
        Call& call = calls_.emplace_back();
        call.cancellation = std::make_shared<Cancellation>();
        CallDevice(task, device, request, call,
                   task == 0 ? deadline : absl::InfiniteFuture());
        calls.push_back(&call);
      }
    }
    environment_.Advance(absl::Seconds(1) - absl::Nanoseconds(1));
    for (const Call* call : calls) EXPECT_FALSE(call->outcome.status);
    end(*calls[0]);
    environment_.RunAll();
    for (int i = 0; i < 2 * kDevices; ++i) {
      EXPECT_TRUE(calls[i]->outcome.status.has_value()) << i;
    }
    network_.Resume(2);
    environment_.RunAll();
    return calls;
  };
  ExpectEnds(end_by("deadline",
                    [&](Call&) { environment_.Advance(absl::Nanoseconds(1)); }),
             StatusIs(absl::StatusCode::kDeadlineExceeded,
                      testing::HasSubstr("the deadline passed after 1s")));
  ExpectEnds(end_by("cancellation",
                    [](Call& call) {
                      call.cancellation->Cancel(absl::AbortedError("enough"));
                    }),
             IsAborted("enough"));
  ExpectEnds(end_by("end of the group",
                    [&](Call&) {
                      runtimes_[0]->ReformGroup(1, absl::AbortedError("again"));
                    }),
             IsAborted("again"));
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
    Call& late = calls_.emplace_back();
    before->ExecuteAsync(
        {.device = runtimes_[1]->devices()[0],
         .request = std::make_shared<const CollectiveRequest>(request),
         .input = *Tensor::Allocate(request.dtype, request.shape),
         .output = &late.output},
        late.outcome.Set());
    environment_.RunAll();
    ExpectEnds({&late}, IsCancelled("step 5 has been cleaned up"));
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
    ExpectEnds(calls, Says("has been cleaned up"));
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
  ExpectEnds(Pointers(left), IsOk());
}

TEST_P(ClusterRuntimeTest, LeavingDoesNotWaitForATaskThatIsGone) {
  network_.Cut(2);
  std::vector<Outcome> left(2);
  for (int task : {0, 1}) {
    runtimes_[task]->Leave(After(absl::Seconds(60)), left[task].Set());
  }
  environment_.RunAll();
  environment_.Advance(absl::Seconds(6));
  ExpectEnds(Pointers(left), IsOk());
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
  ExpectEnds({&ok}, IsOk());
  ExpectEnds({&unknown}, IsInvalidArgument());
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

// Tests how calls that fail, give up or are aborted end on all tasks.

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

}  // namespace cluster_runtime_test
}  // namespace tutti
