#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "framework/base/mutex.h"
#include "framework/collective/group_directory.h"
#include "framework/peer/local_peer_access.h"
#include "remote/collective_remote_access.h"
#include "resolvers/local/device_resolver_local.h"
#include "resolvers/local/step_sequence_local.h"
#include "tests/cluster/loopback_network.h"
#include "tests/doubles/failing_peer_access.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/cluster_runtime.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/params.h"

namespace tutti {
namespace executor_mgr_test {

using absl::StatusCode;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

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
  for (const LocalJob::Call* call : job.RunAll(job.AllReduceRequest(2))) {
    ASSERT_EQ(call->num_done, 1);
    EXPECT_THAT(*call->status, StatusIs(StatusCode::kInternal,
                                        HasSubstr("gave step 1 no transport")));
  }
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

TEST(ExecutorMgrTest, StepThatIsAskedForAfterItsCleanupStartsAnew) {
  LocalJob job({.devices_per_task = 2});
  const auto before = job.manager().FindOrCreate(1);
  job.manager().Cleanup(1);
  EXPECT_NE(job.manager().FindOrCreate(1), before);
  for (const LocalJob::Call* call : job.RunAll(job.AllReduceRequest(2))) {
    EXPECT_THAT(*call->status, IsOk());
  }
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
  ASSERT_EQ(pending.num_done, 1);
  EXPECT_THAT(*pending.status,
              StatusIs(StatusCode::kCancelled, HasSubstr("step 1")));
  EXPECT_THAT(cleaned->status(),
              StatusIs(StatusCode::kCancelled, HasSubstr("step 1")));
  EXPECT_THAT(other->status(), IsOk());
  EXPECT_NE(job.manager().FindOrCreate(1), cleaned);
}

TEST(ExecutorMgrTest, CleanupAllEndsEveryStep) {
  LocalJob job({});
  const auto first = job.manager().FindOrCreate(1);
  const auto second = job.manager().FindOrCreate(2);
  job.manager().CleanupAll();
  EXPECT_THAT(first->status(),
              StatusIs(StatusCode::kCancelled, HasSubstr("step 1")));
  EXPECT_THAT(second->status(),
              StatusIs(StatusCode::kCancelled, HasSubstr("step 2")));
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
  EXPECT_THAT(
      ends,
      ElementsAre(
          StatusIs(StatusCode::kCancelled,
                   AllOf(HasSubstr("step 1"), HasSubstr("was destroyed"))),
          StatusIs(StatusCode::kCancelled,
                   AllOf(HasSubstr("step 2"), HasSubstr("was destroyed")))));
}

// Notes when steps begin, which takes until it is let, and end.
class StepsResolver : public ParamResolverInterface {
 public:
  void CompleteParamsAsync(const DeviceAttributes&,
                           std::shared_ptr<const CollectiveRequest>, CallNumber,
                           std::shared_ptr<Cancellation>, Done) override {}
  std::string DescribeWaiting(const CollectiveRequest&) override { return ""; }
  void EndGroup(GroupKey, absl::Status) override {}
  uint64_t BeginStep(int64_t) override {
    begins.DecrementCount();
    may_begin.Wait();
    Note("begin");
    return 0;
  }
  void EndStep(int64_t) override { Note("end"); }

  std::vector<std::string> noted() {
    MutexLock lock(&mu_);
    return noted_;
  }

  BlockingCounter begins{1}, may_begin{1};

 private:
  void Note(std::string what) {
    MutexLock lock(&mu_);
    noted_.push_back(std::move(what));
  }

  Mutex mu_;
  std::vector<std::string> noted_ ABSL_GUARDED_BY(mu_);
};

// Another task cleans the step up while its executor is just being made.
TEST(ExecutorMgrTest, AStepBeginsBeforeItEnds) {
  SimulatedEnvironment environment(/*seed=*/1);
  const auto devices =
      *DeviceManager::CreateCpu(1, 1, environment.get().random);
  for (int i = 0; i < 100; ++i) {
    const auto resolver = std::make_shared<StepsResolver>();
    const auto manager = *CollectiveExecutorMgr::Create(
        {.environment = environment.get(),
         .devices = devices.get(),
         .param_resolver = resolver,
         .device_resolver =
             std::make_shared<DeviceResolverLocal>(devices.get()),
         .step_sequence =
             std::make_shared<StepSequenceLocal>(environment.get().random)});
    std::thread maker([&] { manager->FindOrCreate(7); });
    resolver->begins.Wait();
    BlockingCounter cleans(1);
    std::thread cleaner([&] {
      cleans.DecrementCount();
      manager->Cleanup(7);
    });
    cleans.Wait();
    resolver->may_begin.DecrementCount();
    maker.join();
    cleaner.join();
    EXPECT_THAT(resolver->noted(), ElementsAre("begin", "end"));
  }
}

// Does something before it is aborted, once.
class ActsBeforeAbort : public FailNthTransfer {
 public:
  ActsBeforeAbort(std::unique_ptr<PeerAccessInterface> target,
                  std::function<void()>* act)
      : FailNthTransfer(std::move(target), /*n=*/0), act_(act) {}
  void StartAbort(absl::Status reason) override {
    if (const auto act = std::exchange(*act_, nullptr)) act();
    FailNthTransfer::StartAbort(std::move(reason));
  }

 private:
  std::function<void()>* const act_;
};

// Another thread asks for a step that is just being cleaned up: then what waits
// there ends because it begins anew.
TEST(ExecutorMgrTest, WhatABeginningStepEndsMayAskForThatStep) {
  std::shared_ptr<CollectiveRemoteAccess> access;
  std::function<void()> before_abort;
  LocalJob job({.devices_per_task = 2, .make_peer_access = [&](int64_t step) {
                  return std::make_unique<ActsBeforeAbort>(
                      access->ForStep(step), &before_abort);
                }});
  const ClusterSpec cluster = {.job = "localhost", .addresses = {"a:1"}};
  LoopbackNetwork network(cluster, job.environment().get().queue,
                          /*part_elements=*/1);
  access = CollectiveRemoteAccess::Create(
      {.cluster = cluster,
       .environment = job.environment().get(),
       .groups = std::make_shared<GroupDirectory>(),
       .transport = network.Connect(/*task=*/0, /*incarnation=*/1)});
  const CollectiveRequest request = job.AllReduceRequest(8, "RingReduce");
  for (const LocalJob::Call* call : job.RunAll(request)) {
    ASSERT_THAT(*call->status, IsOk());
  }
  Tensor output;
  std::shared_ptr<CollectiveExecutor> begun, asked_for;
  job.executor().ExecuteAsync(
      {.device = job.devices()[0],
       .request = std::make_shared<const CollectiveRequest>(request),
       .input = *Tensor::Allocate(request.dtype, request.shape),
       .output = &output},
      [&](const absl::Status& end) {
        EXPECT_THAT(end, StatusIs(StatusCode::kCancelled, HasSubstr("step 1")));
        asked_for = job.manager().FindOrCreate(1);
      });
  job.environment().RunAll();
  before_abort = [&] {
    std::thread([&] { begun = job.manager().FindOrCreate(1); }).join();
  };
  job.manager().Cleanup(1);
  job.environment().RunAll();
  ASSERT_NE(begun, nullptr);
  EXPECT_EQ(asked_for, begun);
}

TEST(ExecutorMgrTest, CallAfterShutdownIsCancelled) {
  LocalJob job({.devices_per_task = 2});
  const auto executor = job.manager().FindOrCreate(1);
  job.manager().CleanupAll();
  absl::Status status;
  executor->ExecuteAsync({.device = job.devices()[0]},
                         [&](absl::Status given) { status = given; });
  EXPECT_THAT(status, StatusIs(StatusCode::kCancelled, HasSubstr("step 1")));
}

TEST(ExecutorMgrTest, MissingOptionsAreInvalid) {
  EXPECT_THAT(CollectiveExecutorMgr::Create({}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("clock")));
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
  EXPECT_THAT(resolver.GetDeviceAttributes("/job:x"),
              StatusIs(StatusCode::kNotFound, HasSubstr("/job:x")));
  EXPECT_THAT(resolver.GetTaskDevices("/job:localhost/replica:0/task:9"),
              StatusIs(StatusCode::kNotFound, HasSubstr("task:9")));
}

}  // namespace executor_mgr_test
}  // namespace tutti
