#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "framework/peer/local_peer_access.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/params.h"

namespace tutti {
namespace executor_mgr_test {

using absl::StatusCode;
using testing::ElementsAre;

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
  absl::Status prepared;
  job.manager().FindOrCreate(1)->Prepare(
      {.device = job.devices()[0],
       .request =
           std::make_shared<const CollectiveRequest>(job.AllReduceRequest(2))},
      [&](const auto& given) { prepared = given.status(); });
  EXPECT_THAT(prepared, SaysThatStep1IsUsedTwice());
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
  absl::Status status;
  const CollectiveRequest request = job->AllReduceRequest(2);
  Tensor input = *Tensor::Allocate(DType::kFloat32, request.shape);
  Tensor output;
  job->executor().ExecuteAsync(
      {.device = job->devices()[0],
       .request = std::make_shared<const CollectiveRequest>(request),
       .input = input,
       .output = &output},
      [&](absl::Status given) { status = std::move(given); });
  job.reset();
  EXPECT_THAT(status, StatusIs(StatusCode::kCancelled,
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
  absl::Status status;
  executor->ExecuteAsync({.device = job.devices()[0]},
                         [&](absl::Status given) { status = given; });
  EXPECT_THAT(status, IsCancelled("step 1"));
}

TEST(ExecutorMgrTest, MissingOptionsAreInvalid) {
  EXPECT_THAT(CollectiveExecutorMgr::Create({}), IsInvalidArgument("clock"));
}

TEST(StepSequenceTest, UnknownGraphMustBeRefreshed) {
  LocalJob job({});
  EXPECT_EQ(job.manager().step_sequence().NextStepId(3), kInvalidStepId);
}

TEST(StepSequenceTest, IdsFollowEachOtherAsTheyAreRetired) {
  LocalJob job({});
  StepSequenceInterface& steps = job.manager().step_sequence();
  absl::Status status = absl::UnknownError("not done");
  steps.RefreshStepIdSequenceAsync(3, [&](auto given) { status = given; });
  ASSERT_THAT(status, IsOk());
  const int64_t first = steps.NextStepId(3);
  EXPECT_GE(first, 0);
  EXPECT_EQ(steps.NextStepId(3), first);
  steps.RetireStepId(3, first);
  EXPECT_EQ(steps.NextStepId(3), first + 1);
}

TEST(StepSequenceTest, RetiringAnotherIdAsksForARefresh) {
  LocalJob job({});
  StepSequenceInterface& steps = job.manager().step_sequence();
  steps.RefreshStepIdSequenceAsync(3, [](absl::Status) {});
  const int64_t first = steps.NextStepId(3);
  steps.RetireStepId(3, first + 5);
  EXPECT_EQ(steps.NextStepId(3), kInvalidStepId);
}

TEST(StepSequenceTest, ForgottenGraphMustBeRefreshed) {
  LocalJob job({});
  StepSequenceInterface& steps = job.manager().step_sequence();
  steps.RefreshStepIdSequenceAsync(3, [](absl::Status) {});
  steps.ForgetGraph(3);
  EXPECT_EQ(steps.NextStepId(3), kInvalidStepId);
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

}  // namespace executor_mgr_test
}  // namespace tutti
