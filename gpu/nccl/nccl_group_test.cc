#include "gpu/nccl/nccl_group.h"

#include <climits>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/reduce/reduction_test_data.h"
#include "gmock/gmock.h"
#include "gpu/device/gpu_pass_end.h"
#include "gpu/testing/fake_nccl_tasks.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/executor.h"

// Tests communicators, failure and order with NcclReduce.

namespace tutti {
namespace nccl_group_test {

using ::testing::Each;
using ::testing::Eq;
using ::testing::IsEmpty;
using ::testing::Optional;

constexpr uint64_t kSeeds = 20;

// Longest duration of an abort.
constexpr absl::Duration kBound = absl::Seconds(5);

// Sums of uint8 that a test runs repeatedly. They leave nothing behind, unless
// the test allows it.
class Sums {
 public:
  explicit Sums(FakeNcclTasks::Options options = {.num_tasks = 2})
      : tasks_(options) {
    request_ = tasks_.Request(AllReduce{}, DType::kUint8, 3);
    request_.impl_details.implementation = "NcclReduce";
    for (int rank = 0; rank < tasks_.size(); ++rank) {
      inputs_.push_back(tasks_.Allocate(rank, DType::kUint8, request_.shape));
      tasks_.Write(rank, inputs_[rank], Bytes(3, rank + 1));
      outputs_.push_back(tasks_.Allocate(rank, DType::kUint8, request_.shape));
    }
  }

  ~Sums() {
    if (may_leave_something_) return;
    EXPECT_THAT(Remains(), IsEmpty());
  }
  Sums(const Sums&) = delete;
  Sums& operator=(const Sums&) = delete;

  // For tests that end with a spoilt GPU or with calls under way.
  void MayLeaveSomething() { may_leave_something_ = true; }

  FakeNcclTasks& tasks() { return tasks_; }
  FakeNcclNetwork& network() { return tasks_.network(); }
  int size() const { return tasks_.size(); }
  CollectiveRequest& request() { return request_; }
  const Tensor& output(int rank) const { return outputs_[rank]; }
  Bytes Sum() const { return Bytes(3, size() * (size() + 1) / 2); }

  void Call(int rank, int64_t key = 0, int64_t step = 1) {
    CollectiveRequest request = request_;
    request.instance_key = key;
    tasks_.Call(rank, request, inputs_[rank], &outputs_[rank], step);
  }
  void CallAll(int64_t key = 0, int64_t step = 1) {
    for (int rank = 0; rank < size(); ++rank) Call(rank, key, step);
  }

  // Calls on all ranks, runs, and expects the sum everywhere.
  void Run(int64_t key = 0, int64_t step = 1) {
    CallAll(key, step);
    tasks_.RunAll();
    ASSERT_THAT(tasks_.TakeCalls(), Each(Optional(IsOk())));
    for (int rank = 0; rank < size(); ++rank) {
      ASSERT_EQ(tasks_.Read(rank, outputs_[rank]), Sum());
    }
  }

  // Calls on a rank. The result cancels the call.
  std::shared_ptr<Cancellation> CallCancellable(int rank) {
    auto cancellation = std::make_shared<Cancellation>();
    CollectiveRequest request = request_;
    request.rank = rank;
    tasks_.Call(rank,
                {.request = std::make_shared<const CollectiveRequest>(request),
                 .input = inputs_[rank],
                 .output = &outputs_[rank],
                 .cancellation = cancellation});
    return cancellation;
  }

  // Calls on all ranks. The result cancels the call of `cancellable`.
  std::shared_ptr<Cancellation> CallAllWithCancellable(int cancellable) {
    std::shared_ptr<Cancellation> cancellation;
    for (int rank = 0; rank < size(); ++rank) {
      if (rank == cancellable) {
        cancellation = CallCancellable(rank);
      } else {
        Call(rank);
      }
    }
    return cancellation;
  }

  // Gives up the step, and lets pass the time that this may take.
  void Abort() {
    tasks_.executor(0)->StartAbort(absl::AbortedError("enough"));
    tasks_.environment().Advance(kBound);
  }

  // Expects that all calls since the last check have ended with `status`.
  template <typename Matcher>
  void ExpectEnded(const Matcher& status) {
    EXPECT_THAT(tasks_.TakeCalls(), Each(Optional(status)));
  }
  void ExpectPending() { EXPECT_THAT(tasks_.ended(), Each(Eq(std::nullopt))); }

  // Runs in the next generation of the group, and in another step.
  void ExpectNextGenerationRuns() {
    tasks_.EndGroup(absl::AbortedError("formed again"));
    tasks_.RunAll();
    Run(/*key=*/0, /*step=*/99);
  }

  std::vector<std::string> Remains() {
    inputs_.clear();
    outputs_.clear();
    return tasks_.Remains();
  }

 private:
  FakeNcclTasks tasks_;
  CollectiveRequest request_;
  std::vector<Tensor> inputs_, outputs_;
  bool may_leave_something_ = false;
};

auto Cancelled() { return IsCancelled("enough"); }

auto Aborted() { return IsAborted("enough"); }

TEST(NcclGroupTest, OneCommunicatorServesAGeneration) {
  Sums sums({.num_tasks = 2, .gpus_per_task = 3});
  for (int64_t key = 1; key <= 4; ++key) {
    for (int64_t step = 1; step <= 3; ++step) {
      ASSERT_NO_FATAL_FAILURE(sums.Run(key, step));
    }
  }
  EXPECT_EQ(sums.network().counts().ids, 1);
  EXPECT_EQ(sums.network().counts().inits, sums.size());
  EXPECT_EQ(sums.network().counts().launches, 2 * 4 * 3);
}

TEST(NcclGroupTest, AGroupThatUsesNoNcclMakesNoCommunicator) {
  Sums sums;
  sums.request().impl_details.implementation = "";
  sums.request().op = Barrier{};
  sums.MayLeaveSomething();
  sums.CallAll();  // No implementation runs it on GPUs.
  EXPECT_EQ(sums.network().counts().inits, 0);
}

TEST(NcclGroupTest, CommunicatorsAreFreedWithTheGroup) {
  Sums sums;
  ASSERT_NO_FATAL_FAILURE(sums.Run());
  EXPECT_THAT(sums.Remains(), IsEmpty());
  const auto counts = sums.network().counts();
  EXPECT_EQ(counts.aborts + counts.destroys, sums.size());
}

TEST(NcclGroupTest, TheNextGenerationHasACommunicatorOfItsOwn) {
  Sums sums;
  ASSERT_NO_FATAL_FAILURE(sums.Run());
  ASSERT_NO_FATAL_FAILURE(sums.ExpectNextGenerationRuns());
  EXPECT_EQ(sums.network().counts().ids, 2);
  EXPECT_EQ(sums.network().counts().inits, 2 * sums.size());
  EXPECT_EQ(sums.network().counts().aborts, sums.size());
}

TEST(NcclGroupTest, ComputeStreamsReadTheResults) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Sums sums({.seed = seed, .gpus_per_task = 3});
    ASSERT_NO_FATAL_FAILURE(sums.Run());
    FakeNcclTasks& tasks = sums.tasks();
    std::vector<Tensor> seen;
    for (int rank = 0; rank < sums.size(); ++rank) {
      tasks.Write(rank, sums.output(rank), Bytes(3, 0));
    }
    sums.CallAll();
    for (int rank = 0; rank < sums.size(); ++rank) {
      seen.push_back(tasks.Allocate(rank, DType::kUint8, sums.request().shape));
      EXPECT_THAT(
          tasks.gpus(rank).LaunchCopy({.input = sums.output(rank).data(),
                                       .outputs = {seen[rank].mutable_data()},
                                       .num_bytes = 3},
                                      tasks.device(rank).compute_stream()),
          IsOk());
    }
    tasks.RunAll();
    for (int rank = 0; rank < sums.size(); ++rank) {
      EXPECT_EQ(tasks.Read(rank, seen[rank]), sums.Sum());
    }
  }
}

TEST(NcclGroupTest, ALibraryIsAskedAtOnceAndThenByTheClock) {
  constexpr int kAtOnce = NcclGroup::kLooksAtOnce;
  for (const int num_looks : {1, kAtOnce - 1, kAtOnce, kAtOnce + 5}) {
    Sums sums({.gpus_per_task = 3});
    sums.network().SetLooks(num_looks);
    for (const int64_t key : {1, 2}) {  // With and without an init.
      sums.CallAll(key);
      sums.tasks().environment().RunAll();  // No time passes.
      if (num_looks >= kAtOnce) {
        sums.ExpectPending();
        sums.tasks().RunAll();
      }
      sums.ExpectEnded(IsOk());
    }
  }
}

// The first launch ends before the other task launches the second.
TEST(NcclGroupTest, ALaunchEndsBeforeTheNextOneOfAnotherGroup) {
  Sums sums;
  const auto call = [&](int task, GroupKey group) {
    sums.request().group_key = group;
    sums.Call(2 * task);
    sums.Call(2 * task + 1);
  };
  for (const GroupKey group : {1, 2}) {
    call(0, group);
    call(1, group);
    sums.tasks().RunAll();
    sums.ExpectEnded(IsOk());
  }
  // Both launches are added before NCCL has done the first.
  sums.network().SetLooks(NcclGroup::kLooksAtOnce);
  call(0, 1);
  call(0, 2);
  sums.tasks().RunAll();
  call(1, 1);
  sums.tasks().RunAll();
  const auto ended = sums.tasks().ended();
  EXPECT_THAT(ended[2], Optional(IsOk()));
  EXPECT_THAT(ended[3], Optional(IsOk()));
  call(1, 2);
  sums.tasks().RunAll();
  sums.ExpectEnded(IsOk());
}

TEST(NcclGroupTest, WhatHangsEndsOnAllTasksWhenOneMemberIsCancelled) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    for (int cancelled = 0; cancelled < 6; ++cancelled) {
      Sums sums({.seed = seed, .num_tasks = 3});
      ASSERT_NO_FATAL_FAILURE(sums.Run());
      sums.network().HangLaunches(true);
      const auto cancellation = sums.CallAllWithCancellable(cancelled);
      sums.tasks().environment().Advance(kBound);
      sums.ExpectPending();
      cancellation->Cancel(absl::CancelledError("enough"));
      sums.tasks().environment().Advance(kBound);
      sums.ExpectEnded(Cancelled());
      EXPECT_EQ(sums.network().counts().aborts, sums.size());
      EXPECT_EQ(sums.tasks().environment().num_alarms(), 0);
      sums.network().HangLaunches(false);
      ASSERT_NO_FATAL_FAILURE(sums.ExpectNextGenerationRuns());
    }
  }
}

TEST(NcclGroupTest, WhatHangsInOneProcessEndsWithTheAbort) {
  Sums sums({.gpus_per_task = 3});
  sums.network().HangLaunches(true);
  sums.CallAll();
  sums.tasks().RunAll();
  sums.ExpectPending();
  sums.tasks().executor(0)->StartAbort(absl::AbortedError("enough"));
  sums.tasks().RunAll();
  sums.ExpectEnded(Aborted());
  EXPECT_EQ(sums.network().counts().aborts, 3);
}

TEST(NcclGroupTest, WhatHangsEndsWithTheGroup) {
  Sums sums;
  sums.network().HangLaunches(true);
  sums.CallAll();
  sums.tasks().RunAll();
  sums.ExpectPending();
  sums.tasks().EndGroup(absl::UnavailableError("a task is lost"));
  sums.tasks().RunAll();
  sums.ExpectEnded(IsUnavailable("a task is lost"));
  sums.network().HangLaunches(false);
  ASSERT_NO_FATAL_FAILURE(sums.Run(/*key=*/0, /*step=*/2));
}

TEST(NcclGroupTest, AnInitThatHangsEndsWithTheCancellation) {
  Sums sums;
  sums.network().HangInits(true);
  const auto cancellation = sums.CallAllWithCancellable(3);
  sums.tasks().environment().Advance(kBound);
  sums.ExpectPending();
  cancellation->Cancel(absl::CancelledError("enough"));
  sums.tasks().environment().Advance(kBound);
  sums.ExpectEnded(Cancelled());
  sums.network().HangInits(false);
  ASSERT_NO_FATAL_FAILURE(sums.ExpectNextGenerationRuns());
}

// Members of other tasks have launched; a member of the last task never calls.
TEST(NcclGroupTest, WhatIsLaunchedElsewhereEndsToo) {
  Sums sums;
  ASSERT_NO_FATAL_FAILURE(sums.Run());
  sums.Call(0);
  sums.Call(1);
  const auto cancellation = sums.CallCancellable(2);
  sums.tasks().environment().Advance(kBound);
  EXPECT_EQ(sums.tasks().ended()[0], std::nullopt);
  cancellation->Cancel(absl::CancelledError("enough"));
  sums.tasks().RunAll();
  sums.ExpectEnded(Cancelled());
  sums.Call(3);
  sums.ExpectEnded(Cancelled());
  ASSERT_NO_FATAL_FAILURE(sums.ExpectNextGenerationRuns());
}

TEST(NcclGroupTest, LaterCallsOfTheGenerationGetTheFirstError) {
  Sums sums;
  sums.network().HangLaunches(true);
  const auto cancellation = sums.CallAllWithCancellable(0);
  sums.tasks().RunAll();
  cancellation->Cancel(absl::CancelledError("enough"));
  sums.tasks().RunAll();
  sums.network().HangLaunches(false);
  sums.CallAll(/*key=*/1);
  sums.tasks().RunAll();
  sums.ExpectEnded(Cancelled());
}

constexpr int kMost = NcclGroup::kMostRunning;

TEST(NcclGroupTest, SoManyLaunchesAreUnderWayAtATime) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Sums sums({.seed = seed, .num_tasks = 2});
    ASSERT_NO_FATAL_FAILURE(sums.Run());
    for (int i = 0; i < 3 * kMost; ++i) sums.CallAll();
    EXPECT_EQ(sums.network().counts().launches, 2 * (1 + kMost));
    sums.tasks().RunAll();
    sums.ExpectEnded(IsOk());
    EXPECT_EQ(sums.network().counts().launches, 2 * (1 + 3 * kMost));
    EXPECT_EQ(sums.network().counts().most, kMost);
  }
}

// Compute streams may read the results once all members have called.
TEST(NcclGroupTest, WithinOneProcessAllLaunchesAreUnderWay) {
  Sums sums({.gpus_per_task = 2});
  ASSERT_NO_FATAL_FAILURE(sums.Run());
  for (int i = 0; i < 3 * kMost; ++i) sums.CallAll();
  EXPECT_EQ(sums.network().counts().launches, 1 + 3 * kMost);
  sums.tasks().RunAll();
  sums.ExpectEnded(IsOk());
}

constexpr char kWhyBlocking[] = "it is old";

// Calls do not wait for the init. More launches at a time might block a call.
TEST(NcclGroupTest, CommunicatorsThatBlockAreMadeByTheQueueForSoManyLaunches) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Sums sums({.seed = seed, .why_blocking = kWhyBlocking});
    sums.CallAll();
    EXPECT_EQ(sums.network().counts().inits, 0);
    sums.tasks().RunAll();
    sums.ExpectEnded(IsOk());
    EXPECT_EQ(sums.network().counts().inits, sums.size());
    for (int i = 0; i < 3 * kMost; ++i) sums.CallAll();
    EXPECT_EQ(sums.network().counts().launches, 1 + kMost);
    sums.tasks().RunAll();
    sums.ExpectEnded(IsOk());
    EXPECT_EQ(sums.network().counts().most, kMost);
  }
}

TEST(NcclGroupTest, AnAbortEndsWhatIsOnCommunicatorsThatBlock) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Sums sums({.seed = seed, .why_blocking = kWhyBlocking});
    ASSERT_NO_FATAL_FAILURE(sums.Run());
    sums.network().HangLaunches(true);
    for (int i = 0; i < 2 * kMost; ++i) sums.CallAll();
    sums.tasks().RunAll();
    sums.Abort();
    sums.ExpectEnded(Aborted());
    sums.network().HangLaunches(false);
    ASSERT_NO_FATAL_FAILURE(sums.ExpectNextGenerationRuns());
  }
}

TEST(NcclGroupTest, AGroupThatEndsBeforeItsCommunicatorIsMadeMakesNone) {
  Sums sums({.why_blocking = kWhyBlocking});
  sums.CallAll();
  sums.tasks().executor(0)->StartAbort(absl::AbortedError("enough"));
  sums.tasks().RunAll();
  sums.ExpectEnded(Aborted());
  EXPECT_EQ(sums.network().counts().inits, 0);
}

TEST(NcclGroupTest, CommunicatorsThatBlockAreOfOneTask) {
  Sums sums({.num_tasks = 2, .why_blocking = kWhyBlocking});
  sums.CallAll();
  sums.tasks().RunAll();
  sums.ExpectEnded(IsInvalidArgument("NcclReduce needs a key", "several tasks",
                                     kWhyBlocking));
  EXPECT_EQ(sums.network().counts().inits, 0);
}

// Its NCCL differs from the leader's.
TEST(NcclGroupTest, ATaskWhoseCommunicatorsBlockIsNamed) {
  Sums sums(
      {.num_tasks = 2, .why_blocking = kWhyBlocking, .first_that_blocks = 1});
  sums.CallAll();
  sums.tasks().RunAll();
  sums.ExpectEnded(
      IsInvalidArgument("may not block, as it does on rank 2 "
                        "(/job:localhost/replica:0/task:1/device:GPU:0)"));
}

TEST(NcclGroupTest, AnAbortEndsThoseUnderWayAndThoseThatWait) {
  Sums sums;
  ASSERT_NO_FATAL_FAILURE(sums.Run());
  sums.network().HangLaunches(true);
  for (int i = 0; i < 3 * kMost; ++i) sums.CallAll();
  sums.tasks().RunAll();
  EXPECT_THAT(sums.tasks().ended(), Each(Eq(std::nullopt)));
  EXPECT_EQ(sums.network().counts().most, kMost);
  sums.Abort();
  sums.ExpectEnded(Aborted());
  sums.network().HangLaunches(false);
  ASSERT_NO_FATAL_FAILURE(sums.ExpectNextGenerationRuns());
}

// Running and waiting calls get the error during the abort, and the group can
// be formed again.
TEST(NcclGroupTest, NobodyWaitsForAnAbortThatHangs) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Sums sums({.seed = seed, .num_tasks = 2});
    ASSERT_NO_FATAL_FAILURE(sums.Run());
    sums.network().HangLaunches(true);
    for (int i = 0; i < 3 * kMost; ++i) sums.CallAll();
    sums.tasks().RunAll();
    int num_aborts = 0;
    sums.network().SlowAborts([&] {
      // Runs the abort of the other task, which hangs, too.
      sums.tasks().environment().Advance(kBound);
      if (++num_aborts > 1) return;
      sums.ExpectEnded(Aborted());
      sums.network().HangLaunches(false);
      sums.network().SlowAborts(nullptr);
      sums.ExpectNextGenerationRuns();
    });
    sums.Abort();
    EXPECT_EQ(num_aborts, 2);
  }
}

// NCCL may put the launch on the streams until the abort is done: its buffers
// are in use.
TEST(NcclGroupTest, OnlyALaunchThatIsNotOnTheStreamsWaitsForTheAbort) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Sums sums({.seed = seed, .num_tasks = 2});
    ASSERT_NO_FATAL_FAILURE(sums.Run());
    sums.network().SetLooks(INT_MAX);  // Never ready.
    for (int i = 0; i < 3; ++i) sums.CallAll();
    sums.tasks().RunAll();
    int num_aborts = 0;
    sums.network().SlowAborts([&] {
      // Runs the abort of the other task, which hangs, too.
      sums.tasks().environment().Advance(kBound);
      if (++num_aborts > 1) return;
      std::vector<std::optional<absl::Status>> calls = sums.tasks().calls();
      ASSERT_EQ(calls.size(), 3 * sums.size());
      const auto waited = calls.begin() + sums.size();
      EXPECT_THAT(std::vector(calls.begin(), waited), Each(Eq(std::nullopt)));
      EXPECT_THAT(std::vector(waited, calls.end()), Each(Optional(Aborted())));
    });
    sums.Abort();
    EXPECT_EQ(num_aborts, 2);
    sums.network().SlowAborts(nullptr);
    sums.ExpectEnded(Aborted());
  }
}

TEST(NcclGroupTest, AnAsynchronousErrorEndsAllTasks) {
  for (const bool is_hanging : {false, true}) {
    Sums sums;
    ASSERT_NO_FATAL_FAILURE(sums.Run());
    sums.network().HangLaunches(is_hanging);
    sums.CallAll();
    sums.network().FailAll(absl::InternalError("the link is down"));
    sums.tasks().environment().Advance(NcclGroup::kLookEvery);
    sums.ExpectEnded(IsInternal("the link is down"));
    EXPECT_EQ(sums.network().counts().aborts, sums.size());
    sums.network().HangLaunches(false);
    ASSERT_NO_FATAL_FAILURE(sums.ExpectNextGenerationRuns());
  }
}

TEST(NcclGroupTest, AnInitOrALaunchThatFailsEndsAllTasks) {
  for (const bool is_init : {false, true}) {
    Sums sums;
    const auto error = absl::InternalError("no luck");
    is_init ? sums.network().FailNextInit(error)
            : sums.network().FailNextLaunch(error);
    sums.CallAll();
    sums.tasks().RunAll();
    sums.ExpectEnded(IsInternal("no luck"));
    EXPECT_EQ(sums.network().counts().living, 0);
    ASSERT_NO_FATAL_FAILURE(sums.ExpectNextGenerationRuns());
  }
}

TEST(NcclGroupTest, ACallThatFailsEndsAllTasksAndLeavesNothing) {
  for (const GpuCall call :
       {GpuCall::kCreateEvent, GpuCall::kRecordEvent, GpuCall::kWaitForEvent}) {
    for (int num_good = 0; num_good < 4; ++num_good) {
      Sums sums;
      sums.tasks().gpus(0).FailCall(call, num_good,
                                    absl::InternalError("no luck"));
      sums.CallAll();
      sums.tasks().RunAll();
      sums.tasks().environment().Advance(GpuPassEnd::kLookEvery);
      sums.ExpectEnded(IsInternal("no luck"));
    }
  }
}

TEST(NcclGroupTest, ASpoiltGpuEndsAllTasks) {
  for (int spoilt = 0; spoilt < 4; ++spoilt) {
    Sums sums;
    sums.MayLeaveSomething();
    ASSERT_NO_FATAL_FAILURE(sums.Run());
    sums.tasks().gpus(spoilt).FailStream(
        sums.tasks().device(spoilt).compute_stream(),
        absl::InternalError("illegal address"));
    sums.CallAll();
    sums.tasks().environment().Advance(3 * GpuPassEnd::kLookEvery);
    sums.ExpectEnded(IsInternal("illegal address"));
    EXPECT_EQ(sums.tasks().environment().num_alarms(), 0);
  }
}

// Makes two settled instances.
std::unique_ptr<Sums> TwoSettled(int num_tasks) {
  auto sums =
      std::make_unique<Sums>(FakeNcclTasks::Options{.num_tasks = num_tasks});
  for (const int64_t step : {1, 2}) {
    sums->Run(1, step);
    sums->Run(2, step);
  }
  return sums;
}

TEST(NcclOrderTest, AnotherOrderIsFoundAndNamed) {
  const auto sums = TwoSettled(3);
  for (int rank = 0; rank < sums->size(); ++rank) {
    const bool is_other = rank >= 4;  // The last task.
    sums->Call(rank, is_other ? 2 : 1);
  }
  sums->tasks().RunAll();
  sums->ExpectEnded(IsFailedPrecondition(
      "launch 5, instance 1, execution 1 on rank 0",
      "launch 5, instance 2, execution 1 on rank 4", "dependencies"));
  EXPECT_EQ(sums->network().counts().aborts, sums->size());
  ASSERT_NO_FATAL_FAILURE(sums->ExpectNextGenerationRuns());
}

// Members of the last task give different rows.
TEST(NcclOrderTest, OtherRowsAreFoundAndNamed) {
  FakeNcclTasks tasks({.num_tasks = 2});
  std::vector<Tensor> outputs(tasks.size());
  for (int rank = 0; rank < tasks.size(); ++rank) {
    std::vector<int64_t> rows(tasks.size(), 1);
    if (rank >= tasks.size() / 2) rows.back() = 2;
    CollectiveRequest request = tasks.Request(
        AllGather{.uneven = true, .rows = rows}, DType::kUint8, rows[rank]);
    request.impl_details.implementation = "NcclGather";
    tasks.Call(rank, request,
               tasks.Allocate(rank, DType::kUint8, request.shape),
               &outputs[rank]);
  }
  tasks.RunAll();
  EXPECT_THAT(tasks.TakeCalls(),
              Each(Optional(IsInvalidArgument("rank 2 gives other rows than "
                                              "rank 0"))));
  outputs.clear();
  EXPECT_THAT(tasks.Remains(), IsEmpty());
}

TEST(NcclOrderTest, AnotherOrderOfStepsIsFound) {
  const auto sums = TwoSettled(2);
  const auto call = [&](int task, int64_t step) {
    sums->Call(2 * task, 1, step);
    sums->Call(2 * task + 1, 1, step);
  };
  call(0, 1);
  call(0, 2);
  call(1, 2);
  call(1, 1);
  sums->tasks().RunAll();
  sums->ExpectEnded(
      IsFailedPrecondition("launch 5, instance 1", "launch 6, instance 1"));
}

TEST(NcclOrderTest, DependenciesMakeTheOrder) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Sums sums({.seed = seed, .num_tasks = 2});
    // The last task calls the second instance first.
    const auto call = [&](int rank, int64_t key) {
      sums.request().impl_details.dependencies.clear();
      if (key == 2) sums.request().impl_details.dependencies = {{0, 1}};
      sums.Call(rank, key);
    };
    for (int execution = 0; execution < 3; ++execution) {
      for (const int rank : {0, 1}) call(rank, 1);
      for (const int rank : {2, 3}) call(rank, 2);
      for (const int rank : {2, 3}) call(rank, 1);
      for (const int rank : {0, 1}) call(rank, 2);
      sums.tasks().RunAll();
      sums.ExpectEnded(IsOk());
    }
    EXPECT_EQ(sums.network().counts().launches, 2 * 2 * 3);
  }
}

}  // namespace nccl_group_test
}  // namespace tutti
