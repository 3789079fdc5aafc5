// Objects of a process: executors of steps, step sequence, devices, local
// group, observer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "framework/peer/local_peer_access.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/local_runtime.h"
#include "tutti/params.h"
#include "tutti/selection.h"
#include "tutti/tensor.h"

namespace tutti {
namespace manager_test {

using absl::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

TEST(ExecutorMgrTest, FindsTheExecutorThatItCreatedForAStep) {
  LocalJob job({});
  const auto first = job.manager().FindOrCreate(7);
  EXPECT_EQ(job.manager().FindOrCreate(7), first);
  EXPECT_NE(job.manager().FindOrCreate(8), first);
  EXPECT_EQ(first->step_id(), 7);
}

TEST(ExecutorMgrTest, StepWithoutATransportEndsAllItsCalls) {
  LocalJob job({.devices_per_task = 2,
                .make_peer_access = [](int64_t) { return nullptr; }});
  ExpectEnds(job.RunAll(job.AllReduceRequest(2)),
             IsInternal("gave step 1 no transport"));
  job.manager().Cleanup(1);
}

TEST(ExecutorMgrTest, TransportIsMadeOnceAndWithNoLockHeld) {
  LocalJob* job_in_use = nullptr;
  int num_made = 0;
  LocalJob job({.make_peer_access = [&](int64_t step_id) {
    ++num_made;
    if (step_id == 7) job_in_use->manager().FindOrCreate(8);
    return std::make_unique<LocalPeerAccess>();
  }});
  job_in_use = &job;
  const auto first = job.manager().FindOrCreate(7);
  EXPECT_EQ(job.manager().FindOrCreate(7), first);
  EXPECT_EQ(num_made, 2);
}

auto SaysThatStep1IsUsedTwice() {
  return IsFailedPrecondition("step 1 ", "twice");
}

TEST(ExecutorMgrTest, SecondUseOfAStepIdIsRefused) {
  LocalJob job({.devices_per_task = 2});
  job.RunAll(job.AllReduceRequest(2));
  for (int i = 0; i < 2; ++i) {
    job.manager().Cleanup(1);
    EXPECT_THAT(job.manager().FindOrCreate(1)->status(),
                SaysThatStep1IsUsedTwice());
    ExpectEnds(job.RunAll(job.AllReduceRequest(2)), SaysThatStep1IsUsedTwice());
  }
  ExpectEnds({&job.Prepare(0, job.AllReduceRequest(2))},
             SaysThatStep1IsUsedTwice());
  job.BeginNextStep();
  ExpectEnds(job.RunAll(job.AllReduceRequest(2)), IsOk());
}

// A clean-up by another task may come before the step's first call.
TEST(ExecutorMgrTest, StepThatIsCleanedUpBeforeItsFirstUseIsRefused) {
  LocalJob job({.devices_per_task = 2});
  job.manager().Cleanup(1);
  ExpectEnds(job.RunAll(job.AllReduceRequest(2)), SaysThatStep1IsUsedTwice());
}

TEST(ExecutorMgrTest, CallbackOfACleanupMayAskForTheStep) {
  LocalJob job({.devices_per_task = 2});
  const CollectiveRequest request = job.AllReduceRequest(2);
  Tensor output;
  absl::Status again;
  job.executor().ExecuteAsync(
      {.device = job.devices()[0],
       .request = std::make_shared<const CollectiveRequest>(request),
       .input = *Tensor::Allocate(request.dtype, request.shape),
       .output = &output},
      [&](const absl::Status& end) {
        EXPECT_THAT(end, IsCancelled("step 1"));
        job.manager().Cleanup(1);
        again = job.manager().FindOrCreate(1)->status();
      });
  job.manager().Cleanup(1);
  EXPECT_THAT(again, SaysThatStep1IsUsedTwice());
}

TEST(ExecutorMgrTest, CleanupEndsOneStepAndNoOther) {
  LocalJob job({.devices_per_task = 2});
  const CollectiveRequest request = job.AllReduceRequest(2);
  job.RunAll(request);
  auto& pending = job.Start(0, request);
  const auto other = job.manager().FindOrCreate(2);
  const auto cleaned = job.manager().FindOrCreate(1);
  job.manager().Cleanup(1);
  job.manager().Cleanup(1);  // Idempotent.
  ExpectEnds({&pending}, IsCancelled("step 1"));
  EXPECT_THAT(cleaned->status(), IsCancelled("step 1"));
  EXPECT_THAT(other->status(), IsOk());
  EXPECT_EQ(job.manager().FindOrCreate(2), other);
}

TEST(ExecutorMgrTest, CleanupAllEndsEveryStep) {
  LocalJob job({});
  const auto first = job.manager().FindOrCreate(1);
  const auto second = job.manager().FindOrCreate(2);
  job.manager().CleanupAll();
  EXPECT_THAT(first->status(), IsCancelled("step 1"));
  EXPECT_THAT(second->status(), IsCancelled("step 2"));
}

TEST(ExecutorMgrTest, DestructionEndsWhatIsPending) {
  auto job =
      std::make_unique<LocalJob>(LocalJob::Options{.devices_per_task = 2});
  LocalJob::Call call;
  job->executor().ExecuteAsync(
      {.device = job->devices()[0],
       .request =
           std::make_shared<const CollectiveRequest>(job->AllReduceRequest(2)),
       .input = *Tensor::Allocate(DType::kFloat32, TensorShape::Vector(2)),
       .output = &call.output},
      call.Done());
  job.reset();
  ExpectEnds({&call}, StatusIs(StatusCode::kCancelled,
                               "step 1 has ended: the executor manager was "
                               "destroyed"));
}

TEST(ExecutorMgrTest, WhatIsBegunDuringTheDestructionEndsToo) {
  auto job =
      std::make_unique<LocalJob>(LocalJob::Options{.devices_per_task = 2});
  CollectiveExecutorMgr& manager = job->manager();
  Device* const device = job->devices()[0];
  const auto request =
      std::make_shared<const CollectiveRequest>(job->AllReduceRequest(2));
  const Tensor input = *Tensor::Allocate(DType::kFloat32, request->shape);
  Tensor output;
  const auto call = [&](int64_t step_id, StatusCallback done) {
    manager.FindOrCreate(step_id)->ExecuteAsync({.device = device,
                                                 .request = request,
                                                 .input = input,
                                                 .output = &output},
                                                std::move(done));
  };
  std::vector<absl::Status> ends;
  call(1, [&](absl::Status first) {
    ends.push_back(std::move(first));
    call(2, [&](absl::Status second) { ends.push_back(std::move(second)); });
  });
  job.reset();
  EXPECT_THAT(ends, ElementsAre(IsCancelled("step 1", "was destroyed"),
                                IsCancelled("step 2", "was destroyed")));
}

// Another task cleans the step up while its executor is being created.
TEST(ExecutorMgrTest, CleanupWaitsForTheExecutorThatIsBeingMade) {
  BlockingCounter is_making(1), may_make(1);
  LocalJob job({.make_peer_access = [&](int64_t) {
    is_making.DecrementCount();
    may_make.Wait();
    return std::make_unique<LocalPeerAccess>();
  }});
  std::shared_ptr<CollectiveExecutor> made;
  std::thread maker([&] { made = job.manager().FindOrCreate(7); });
  is_making.Wait();
  BlockingCounter cleans(1);
  std::thread cleaner([&] {
    cleans.DecrementCount();
    job.manager().Cleanup(7);
  });
  cleans.Wait();
  may_make.DecrementCount();
  maker.join();
  cleaner.join();
  EXPECT_THAT(made->status(), IsCancelled("step 7"));
  EXPECT_THAT(job.manager().FindOrCreate(7)->status(),
              IsFailedPrecondition("step 7"));
}

TEST(ExecutorMgrTest, CallAfterShutdownIsCancelled) {
  LocalJob job({.devices_per_task = 2});
  const auto executor = job.manager().FindOrCreate(1);
  job.manager().CleanupAll();
  LocalJob::Call call;
  executor->ExecuteAsync({.device = job.devices()[0]}, call.Done());
  ExpectEnds({&call}, IsCancelled("step 1"));
}

TEST(ExecutorMgrTest, MissingOptionsAreInvalid) {
  EXPECT_THAT(CollectiveExecutorMgr::Create({}), IsInvalidArgument("clock"));
}

class StepSequenceTest : public testing::Test {
 protected:
  static constexpr int64_t kGraph = 3;

  // Begins a sequence and returns its first id.
  int64_t Refresh() {
    absl::Status status = absl::UnknownError("not done");
    steps_.RefreshStepIdSequenceAsync(kGraph,
                                      [&](auto given) { status = given; });
    EXPECT_THAT(status, IsOk());
    return steps_.NextStepId(kGraph);
  }

  LocalJob job_{{}};
  StepSequenceInterface& steps_ = job_.manager().step_sequence();
};

TEST_F(StepSequenceTest, IdsFollowEachOtherAsTheyAreRetired) {
  const int64_t first = Refresh();
  EXPECT_GE(first, 0);
  EXPECT_EQ(steps_.NextStepId(kGraph), first);
  steps_.RetireStepId(kGraph, first);
  EXPECT_EQ(steps_.NextStepId(kGraph), first + 1);
}

TEST_F(StepSequenceTest, UnknownAndForgottenGraphsMustBeRefreshed) {
  EXPECT_EQ(steps_.NextStepId(kGraph), kInvalidStepId);
  Refresh();
  steps_.ForgetGraph(kGraph);
  EXPECT_EQ(steps_.NextStepId(kGraph), kInvalidStepId);
}

TEST_F(StepSequenceTest, RetiringAnotherIdAsksForARefresh) {
  steps_.RetireStepId(kGraph, Refresh() + 5);
  EXPECT_EQ(steps_.NextStepId(kGraph), kInvalidStepId);
}

TEST(DeviceResolverTest, KnowsTheDevicesOfThisProcess) {
  LocalJob job({.num_tasks = 2, .devices_per_task = 3});
  DeviceResolverInterface& resolver = job.manager().device_resolver();
  const auto found = resolver.GetDeviceAttributes(
      "/job:localhost/replica:0/task:1/device:CPU:2");
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(*found, job.devices()[5]->attributes());
  const auto task = resolver.GetTaskDevices("/job:localhost/replica:0/task:1");
  ASSERT_THAT(task, IsOk());
  EXPECT_EQ(task->size(), 3u);
}

TEST(DeviceResolverTest, UnknownNamesAreNotFound) {
  LocalJob job({});
  DeviceResolverInterface& resolver = job.manager().device_resolver();
  EXPECT_THAT(resolver.GetDeviceAttributes("/job:x"), IsNotFound("/job:x"));
  EXPECT_THAT(resolver.GetTaskDevices("/job:localhost/replica:0/task:9"),
              IsNotFound("task:9"));
}

// ---- LocalGroup in a program that does not use steps ----

constexpr int64_t kStep = 1;

class LocalGroupTest : public testing::Test {
 protected:
  // A tensor of int32 that lives as long as the test.
  static Tensor Vector(std::initializer_list<int> values) {
    Tensor tensor = *Tensor::Allocate(
        DType::kInt32, TensorShape::Vector(static_cast<int>(values.size())));
    std::copy(values.begin(), values.end(),
              reinterpret_cast<int*>(tensor.mutable_data()));
    return tensor;
  }
  static std::vector<int> Values(const Tensor& tensor) {
    const auto* begin = reinterpret_cast<const int*>(tensor.data());
    return {begin, begin + tensor.num_elements()};
  }

  const DefaultEnvironment environment_;
  const std::unique_ptr<LocalGroup> group_ =
      *LocalGroup::Create(environment_.get(), /*num_tasks=*/1,
                          /*devices_per_task=*/3);
};

TEST_F(LocalGroupTest, RulesThatMakeNoSenseAreRefused) {
  EXPECT_THAT(
      LocalGroup::Create(environment_.get(), 1, 3,
                         std::make_shared<const SelectionRules>(SelectionRules{
                             {{.implementation = "RingGather"}}})),
      IsInvalidArgument("a rule of all_reduce for RingGather: "));
}

TEST_F(LocalGroupTest, RunReturnsWhatEachRankGets) {
  const auto sums =
      group_->Run(kStep, {.op = AllReduce()},
                  {Vector({1, 2}), Vector({10, 20}), Vector({100, 200})});
  ASSERT_THAT(sums, IsOk());
  for (const Tensor& sum : *sums)
    EXPECT_THAT(Values(sum), ElementsAre(111, 222));
}

TEST_F(LocalGroupTest, RunTakesShapesFromTheInputs) {
  const auto rows = group_->Run(kStep, {.op = AllGather{.uneven = true}},
                                {Vector({1, 2}), Vector({}), Vector({3})});
  ASSERT_THAT(rows, IsOk());
  EXPECT_THAT(Values((*rows)[1]), ElementsAre(1, 2, 3));
}

TEST_F(LocalGroupTest, RunBroadcastsFromWhoHasAnInput) {
  const auto copies = group_->Run(kStep,
                                  {.op = Broadcast(),
                                   .dtype = DType::kInt32,
                                   .shape = TensorShape::Vector(2)},
                                  {Tensor(), Vector({4, 5}), Tensor()});
  ASSERT_THAT(copies, IsOk());
  EXPECT_THAT(Values((*copies)[0]), ElementsAre(4, 5));
  EXPECT_THAT(Values((*copies)[2]), ElementsAre(4, 5));
}

TEST_F(LocalGroupTest, RunRefusesAnotherNumberOfInputs) {
  EXPECT_THAT(group_->Run(kStep, {.op = AllReduce()}, {Vector({1})}),
              IsInvalidArgument("1 inputs for a group of 3 devices"));
}

TEST_F(LocalGroupTest, RunSaysWhoDiffers) {
  EXPECT_THAT(group_->Run(kStep, {.op = AllReduce()},
                          {Vector({1, 2}), Vector({1, 2}), Vector({1})}),
              IsInvalidArgument("shape"));
}

// ---- An observer sees all ends ----

constexpr int kNumDevices = 3;

// Copies of the observed ends.
class Recorder : public CollectiveObserver {
 public:
  struct Seen {
    int device = 0;
    int64_t instance = 0;
    int64_t step = 0;
    uint64_t execution = 0;
    std::vector<float> output;

    friend bool operator==(const Seen&, const Seen&) = default;
  };

  void OnFinished(const Finished& finished) override {
    Seen seen{finished.device.attributes().name.index,
              finished.request.instance_key, finished.step_id,
              finished.execution};
    if (finished.output.is_set()) {
      const auto* values =
          reinterpret_cast<const float*>(finished.output.data());
      seen.output.assign(values, values + finished.output.num_elements());
    }
    all.push_back(std::move(seen));
  }

  std::vector<Seen> all;
};

// Parameter: the algorithm; "" means the library's choice.
class CollectiveObserverTest : public testing::TestWithParam<std::string> {
 protected:
  CollectiveObserverTest() { job_.manager().SetObserver(recorder_); }

  static CollectiveRequest RequestTo(const LocalJob& job) {
    CollectiveRequest request = job.AllReduceRequest(2, GetParam());
    request.instance_key = 7;
    return request;
  }

  LocalJob job_{{.devices_per_task = kNumDevices}};
  const CollectiveRequest request_ = RequestTo(job_);
  const std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
};

TEST_P(CollectiveObserverTest, SeesWhatEachMemberGetsOfEachExecution) {
  const std::vector<float> sum = {6, 6};
  for (const uint64_t execution : {0, 1}) {
    recorder_->all.clear();
    job_.RunAll(request_);
    using Seen = Recorder::Seen;
    EXPECT_THAT(recorder_->all,
                UnorderedElementsAre(Seen{0, 7, 1, execution, sum},
                                     Seen{1, 7, 1, execution, sum},
                                     Seen{2, 7, 1, execution, sum}));
  }
}

TEST_P(CollectiveObserverTest, SeesAPartBeforeItsDone) {
  std::vector<size_t> seen_before_done;
  std::vector<Tensor> outputs(kNumDevices);
  for (int device = 0; device < kNumDevices; ++device) {
    job_.executor().ExecuteAsync(
        {.device = job_.devices()[device],
         .request = std::make_shared<const CollectiveRequest>(request_),
         .input = *Tensor::Allocate(DType::kFloat32, request_.shape),
         .output = &outputs[device]},
        [&, device](const absl::Status& status) {
          EXPECT_THAT(status, IsOk());
          size_t num_own = 0;
          for (const auto& seen : recorder_->all) {
            num_own += seen.device == device ? 1 : 0;
          }
          seen_before_done.push_back(num_own);
        });
  }
  job_.environment().RunAll();
  EXPECT_THAT(seen_before_done, ElementsAre(1, 1, 1));
}

TEST_P(CollectiveObserverTest, SeesAnOutputThatAllShare) {
  job_.RunAll(request_,
              [](CollectiveArgs& args) { args.allow_shared_output = true; });
  ASSERT_THAT(recorder_->all, SizeIs(kNumDevices));
  for (const auto& seen : recorder_->all) {
    EXPECT_THAT(seen.output, ElementsAre(6, 6));
  }
}

TEST_P(CollectiveObserverTest, SeesStartsOfWhatIsPreparedAndNotThePreparation) {
  const auto calls = job_.PrepareAll(request_);
  ExpectEnds(calls, IsOk());
  EXPECT_THAT(recorder_->all, IsEmpty());
  for (const auto* call : calls) call->prepared->Start(nullptr);
  job_.environment().RunAll();
  EXPECT_THAT(recorder_->all, SizeIs(kNumDevices));

  // A start with a limit counts as a call.
  for (const auto* call : calls) {
    call->prepared->Start({.cancellation = std::make_shared<Cancellation>()},
                          nullptr);
  }
  job_.environment().RunAll();
  EXPECT_THAT(recorder_->all, SizeIs(2 * kNumDevices));
}

TEST_P(CollectiveObserverTest, SeesNothingOfWhatFails) {
  job_.Start(0, request_);
  job_.Start(1, request_);
  job_.executor().StartAbort(absl::AbortedError("stop"));
  ExpectEnds(job_.RunAll(request_), IsAborted("stop"));
  EXPECT_THAT(recorder_->all, IsEmpty());
}

TEST_P(CollectiveObserverTest, IsThatOfTheTimeWhenTheStepWasFirstAskedFor) {
  job_.manager().FindOrCreate(1);
  job_.manager().SetObserver(nullptr);
  job_.RunAll(request_);
  EXPECT_THAT(recorder_->all, SizeIs(kNumDevices));

  job_.BeginNextStep();
  recorder_->all.clear();
  job_.RunAll(request_);
  EXPECT_THAT(recorder_->all, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Algorithms, CollectiveObserverTest,
                         testing::Values("", "RingReduce", "TreeReduce"),
                         [](const auto& info) {
                           return info.param.empty() ? "Chosen" : info.param;
                         });

TEST(CollectiveObserverOfOthersTest, SeesAPartWithoutOutput) {
  LocalJob job({.devices_per_task = 2});
  const auto recorder = std::make_shared<Recorder>();
  job.manager().SetObserver(recorder);
  CollectiveRequest request = job.AllReduceRequest(2);
  request.op = Barrier();
  job.RunAll(request, [](CollectiveArgs& args) {
    args.input = Tensor();
    args.output = nullptr;
  });
  ASSERT_THAT(recorder->all, SizeIs(2));
  EXPECT_THAT(recorder->all[0].output, IsEmpty());
}

}  // namespace manager_test
}  // namespace tutti
