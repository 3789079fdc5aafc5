// A token and a deadline of a call cover resolving, the wait for dependencies,
// and running. An execution fails as a whole, and does not affect other
// executions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "framework/peer/local_peer_access.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/executor.h"
#include "tutti/tensor.h"

namespace tutti {
namespace endings_test {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Settles the instance, so that later calls start to run at once.
void RunOnce(LocalJob& job, const CollectiveRequest& request) {
  ExpectEnds(job.RunAll(request), IsOk());
}

void WithDeadline(LocalJob& job, CollectiveArgs& args) {
  args.deadline = job.environment().get().clock->Now() + absl::Seconds(2);
}

// Phases of a call, as errors name them.
constexpr absl::string_view kGroupPhase = "group phase";
constexpr absl::string_view kInstancePhase = "instance phase";
constexpr absl::string_view kRunPhase = "run phase";

// A request whose calls wait in this phase for the members that have not come.
CollectiveRequest RequestThatWaitsIn(absl::string_view phase, LocalJob& job) {
  CollectiveRequest request = job.AllReduceRequest(8);
  if (phase != kGroupPhase) RunOnce(job, request);
  if (phase == kInstancePhase) request.instance_key = 2;
  return request;
}

TEST(DeadlineTest, ErrorSaysThePhaseAndWhoHadNotArrived) {
  const std::pair<absl::string_view, testing::Matcher<absl::Status>> cases[] = {
      {kGroupPhase,
       IsDeadlineExceeded("the deadline passed after 2s, group phase",
                          "2 of 3 members had joined", "device:CPU:1")},
      {kInstancePhase,
       StatusIs(StatusCode::kDeadlineExceeded,
                AllOf(HasSubstr("instance phase"), HasSubstr("rank 2"),
                      HasSubstr("device:CPU:2"), HasSubstr("had not arrived"),
                      Not(HasSubstr("rank 0"))))},
      {kRunPhase,
       IsDeadlineExceeded("run phase", "rank 2", "had not arrived")}};
  for (const auto& [phase, error] : cases) {
    SCOPED_TRACE(phase);
    LocalJob job({.devices_per_task = 3});
    const CollectiveRequest request = RequestThatWaitsIn(phase, job);
    auto& first = job.Start(0, request);
    auto& second =
        job.Start(1, request, [&](auto& args) { WithDeadline(job, args); });
    job.environment().Advance(absl::Seconds(1));
    EXPECT_TRUE(first.pending() && second.pending());
    job.environment().Advance(absl::Seconds(1));
    ExpectEnds({&first, &second}, error);
  }
}

TEST(DeadlineTest, WhoComesAfterADeadlineOfAnExecutionGetsItsErrorAtOnce) {
  for (const absl::string_view phase : {kInstancePhase, kRunPhase}) {
    SCOPED_TRACE(phase);
    LocalJob job({.devices_per_task = 3});
    const CollectiveRequest request = RequestThatWaitsIn(phase, job);
    auto& first =
        job.Start(0, request, [&](auto& args) { WithDeadline(job, args); });
    job.Start(1, request);
    job.environment().Advance(absl::Seconds(3));
    auto& late = job.Start(2, request);
    job.environment().RunAll();
    ExpectEnds({&first, &late}, IsDeadlineExceeded("rank 2"));
  }
}

TEST(DeadlineTest, RunPhaseErrorSaysWhatThoseWaitForWhoHadArrived) {
  LocalJob job({.devices_per_task = 3});
  const CollectiveRequest request = job.AllReduceRequest(8, "RingReduce");
  RunOnce(job, request);
  auto& first =
      job.Start(0, request, [&](auto& args) { WithDeadline(job, args); });
  job.Start(1, request);
  job.environment().Advance(absl::Seconds(3));
  ExpectEnds({&first}, IsDeadlineExceeded(
                           "device:CPU:2) had not arrived; the others wait for "
                           "data of rank 0 for rank 1 (tag ",
                           "data of rank 2 for rank 0 (tag ",
                           "; rank 2 to ask rank 1 for data (tag "));
}

TEST(DeadlineTest, PastDeadlineFailsAtOnce) {
  LocalJob job({.devices_per_task = 2});
  auto& call = job.Start(0, job.AllReduceRequest(8), [&](auto& args) {
    args.deadline = job.environment().get().clock->Now();
  });
  ExpectEnds({&call}, IsDeadlineExceeded("instance 1"));
}

TEST(DeadlineTest, AlarmIsDroppedWhenTheCallEndsInTime) {
  LocalJob job({.devices_per_task = 2});
  const auto calls = job.RunAll(job.AllReduceRequest(8),
                                [&](auto& args) { WithDeadline(job, args); });
  EXPECT_EQ(job.environment().num_alarms(), 0u);
  job.environment().Advance(absl::Seconds(5));
  ExpectEnds(calls, IsOk());
}

TEST(CancellationTest, OneCallInAnyPhaseEndsItOnAllMembersAndNothingElse) {
  for (const auto phase : {kGroupPhase, kInstancePhase, kRunPhase}) {
    SCOPED_TRACE(phase);
    LocalJob job({.devices_per_task = 3});
    const CollectiveRequest request = RequestThatWaitsIn(phase, job);
    const auto token = std::make_shared<Cancellation>();
    CollectiveRequest other = request;
    other.instance_key = 77;
    auto& bystander = job.Start(0, other);
    auto& first = job.Start(0, request);
    auto& second =
        job.Start(1, request, [&](auto& args) { args.cancellation = token; });
    token->Cancel(absl::CancelledError("changed my mind"));
    job.environment().RunAll();
    EXPECT_TRUE(bystander.pending());
    auto& third = job.Start(2, request);
    ExpectEnds({&first, &second, &third},
               IsCancelled(absl::StrCat("changed my mind (",
                                        job.devices()[1]->full_name(),
                                        " cancelled its call)")));
    RunOnce(job, request);
    job.Start(1, other);
    job.Start(2, other);
    job.environment().RunAll();
    ExpectEnds({&bystander}, IsOk());
  }
}

TEST(CancellationTest, CancelledTokenEndsTheCallAtOnce) {
  LocalJob job({.devices_per_task = 2});
  const auto token = std::make_shared<Cancellation>();
  token->Cancel(absl::CancelledError("before"));
  auto& call = job.Start(0, job.AllReduceRequest(8),
                         [&](auto& args) { args.cancellation = token; });
  ExpectEnds({&call}, IsCancelled("before"));
}

TEST(CancellationTest, TokenIsLetGoWhenTheCallEnds) {
  LocalJob job({.devices_per_task = 2});
  const auto token = std::make_shared<Cancellation>();
  const auto calls = job.RunAll(job.AllReduceRequest(8),
                                [&](auto& args) { args.cancellation = token; });
  token->Cancel(absl::CancelledError("too late"));
  ExpectEnds(calls, IsOk());
  EXPECT_EQ(token.use_count(), 1);
}

TEST(AbortTest, EndsPendingAndLaterCallsOfTheStepWithTheFirstError) {
  LocalJob job({.devices_per_task = 3});
  const CollectiveRequest request = job.AllReduceRequest(8);
  RunOnce(job, request);
  auto& running = job.Start(0, request);
  CollectiveRequest unresolved = request;
  unresolved.instance_key = 2;
  auto& resolving = job.Start(1, unresolved);
  job.executor().StartAbort(absl::DataLossError("first"));
  job.executor().StartAbort(absl::InternalError("second"));
  auto& later = job.Start(2, request);
  ExpectEnds({&running, &resolving, &later}, IsDataLoss("first"));
  EXPECT_THAT(job.executor().status(), IsDataLoss("first"));
}

// Counts executions cancelled one by one, before the step is aborted.
class CancelCounter : public LocalPeerAccess {
 public:
  explicit CancelCounter(int* num_cancels) : num_cancels_(num_cancels) {}
  void CancelExecution(const CollGroupParams& group, const ExecKey& exec,
                       absl::Status reason) override {
    if (!is_aborted_) ++*num_cancels_;
    LocalPeerAccess::CancelExecution(group, exec, std::move(reason));
  }
  void StartAbort(absl::Status reason) override {
    is_aborted_ = true;
    LocalPeerAccess::StartAbort(std::move(reason));
  }

 private:
  int* const num_cancels_;
  bool is_aborted_ = false;
};

TEST(AbortTest, EndsTheTransfersOfAllCallsAtOnce) {
  int num_cancels = 0;
  LocalJob job({.devices_per_task = 2, .make_peer_access = [&](int64_t) {
                  return std::make_unique<CancelCounter>(&num_cancels);
                }});
  const CollectiveRequest request = job.AllReduceRequest(8, "RingReduce");
  RunOnce(job, request);
  std::vector<LocalJob::Call*> calls;
  for (int i = 0; i < 3; ++i) calls.push_back(&job.Start(0, request));
  job.executor().StartAbort(absl::DataLossError("first"));
  ExpectEnds(calls, IsDataLoss("first"));
  EXPECT_EQ(num_cancels, 0);
}

TEST(AbortTest, GroupThatEndsTakesItsCallsWithItAndCanBeFormedAgain) {
  LocalJob job({.devices_per_task = 2});
  const CollectiveRequest request = job.AllReduceRequest(4);
  CollectiveRequest other_group = request;
  other_group.group_key = 2;
  RunOnce(job, request);
  RunOnce(job, other_group);
  auto& ended = job.Start(0, request);
  auto& bystander = job.Start(0, other_group);
  job.resolver().EndGroup(1, absl::AbortedError("member lost"));
  ExpectEnds({&ended}, IsAborted("member lost"));
  EXPECT_TRUE(bystander.pending());
  ExpectEnds({&job.Start(1, request)}, IsAborted("member lost"));
  RunOnce(job, request);
  job.Start(1, other_group);
  job.environment().RunAll();
  EXPECT_THAT(*bystander.status, IsOk());
}

// Runs calls of the first `num_devices` devices, starting with the last device.
void RunBackwards(LocalJob& job, CollectiveRequest request, int num_devices) {
  request.group_size = num_devices;
  std::vector<const LocalJob::Call*> calls;
  for (int device = num_devices - 1; device >= 0; --device) {
    calls.push_back(&job.Start(device, request));
  }
  job.environment().RunAll();
  ExpectEnds(calls, IsOk());
}

// Reuses the step, in which the other members have already counted executions.
TEST(AbortTest, WhoIsNewInAGroupThatIsFormedAgainMeetsTheOthers) {
  for (const char* implementation : {"LocalReduce", "RingReduce"}) {
    SCOPED_TRACE(implementation);
    LocalJob job({.devices_per_task = 3});
    const CollectiveRequest request = job.AllReduceRequest(4, implementation);
    // A member leaves and returns.
    for (const int num_devices : {2, 3, 2, 3}) {
      for (int i = 0; i < 3; ++i) RunBackwards(job, request, num_devices);
      job.resolver().EndGroup(1, absl::AbortedError("of another size"));
    }
    CollectiveRequest few = request;
    few.group_size = 2;
    job.Start(0, few);
    job.Start(1, few);
    auto& failed = job.Start(1, few);  // Second call, which device 0 lacks.
    job.resolver().EndGroup(1, absl::AbortedError("of another size"));
    EXPECT_EQ(failed.num_done, 1);
    auto& early = job.Start(2, request);
    ExpectEnds({&job.Start(0, request)}, IsAborted("of another size"));
    EXPECT_TRUE(early.pending());
    for (const int device : {0, 1}) job.Start(device, request);
    job.environment().RunAll();
    ExpectEnds({&early}, IsOk());
    RunBackwards(job, request, 3);
  }
}

// The other members' calls are never settled.
TEST(AbortTest, WhoIsNewAfterAGroupCouldNotBeFormedMeetsTheOthers) {
  LocalJob job({.devices_per_task = 3});
  CollectiveRequest few = job.AllReduceRequest(4);
  few.group_size = 2;
  few.rank = 0;  // Both say so.
  for (const int device : {0, 1}) job.Start(device, few);
  job.resolver().EndGroup(1, absl::AbortedError("to be formed anew"));
  RunBackwards(job, job.AllReduceRequest(4), 3);
}

// The new member prepares before the others call; the others' first calls fail
// without it.
TEST(AbortTest, WhatANewMemberHasPreparedMeetsTheOthers) {
  LocalJob job({.devices_per_task = 3});
  const CollectiveRequest request = job.AllReduceRequest(4);
  RunBackwards(job, request, 2);
  job.resolver().EndGroup(1, absl::AbortedError("of another size"));
  auto& third = job.Prepare(2, request);
  ExpectEnds(
      {&job.Start(0, request,
                  [](auto& args) { args.deadline = absl::InfinitePast(); })},
      IsDeadlineExceeded("deadline passed"));
  ExpectEnds({&job.Start(1, request)}, IsDeadlineExceeded("deadline passed"));
  ASSERT_TRUE(third.pending());
  const auto& first = job.Start(0, request);
  const auto& second = job.Start(1, request);
  ASSERT_NE(third.prepared, nullptr);
  LocalJob::Call started;
  third.prepared->Start(started.Done());
  job.environment().RunAll();
  ExpectEnds({&started}, IsOk());
  EXPECT_EQ(first.num_done, 1);
  EXPECT_EQ(second.num_done, 1);
}

// Drops sent data while `lossy` is set.
class LossyPeerAccess : public LocalPeerAccess {
 public:
  explicit LossyPeerAccess(const bool* lossy) : lossy_(lossy) {}
  void PostToPeer(const CollGroupMember& peer, const BufKey& key,
                  const Offer& offer) override {
    if (!*lossy_) return LocalPeerAccess::PostToPeer(peer, key, offer);
    offer.sender->OnReleased(offer.id, absl::OkStatus());
  }

 private:
  const bool* const lossy_;
};

TEST(AbortTest, FirstExecutionOfAReformedGroupIsWokenByItsDeadline) {
  bool lossy = false;
  LocalJob job({.devices_per_task = 2, .make_peer_access = [&](int64_t) {
                  return std::make_unique<LossyPeerAccess>(&lossy);
                }});
  const CollectiveRequest request = job.AllReduceRequest(4, "RingReduce");
  RunOnce(job, request);
  job.resolver().EndGroup(1, absl::AbortedError("member lost"));
  lossy = true;
  const auto calls =
      job.RunAll(request, [&](auto& args) { WithDeadline(job, args); });
  for (const LocalJob::Call* call : calls) EXPECT_TRUE(call->pending());
  job.environment().Advance(absl::Seconds(2));
  ExpectEnds(calls,
             IsDeadlineExceeded(
                 "run phase", "who wait for data of rank 0 for rank 1 (tag "));
}

TEST(AbortTest, ChainOfFailingCallsNeedsNoStack) {
  LocalJob job({.devices_per_task = 1});
  const auto request =
      std::make_shared<const CollectiveRequest>(job.AllReduceRequest(4));
  job.executor().StartAbort(absl::DataLossError("first"));
  int left = 200000;
  std::function<void()> call = [&] {
    job.executor().ExecuteAsync(
        {.device = job.devices()[0], .request = request},
        [&](absl::Status status) {
          EXPECT_THAT(status, Not(IsOk()));
          if (--left > 0) call();
        });
  };
  call();
  EXPECT_EQ(left, 0);
}

// Records the calls that the transport gets about executions.
class Recorder : public LocalPeerAccess {
 public:
  explicit Recorder(std::vector<std::string>* calls) : calls_(calls) {}
  void CancelExecution(const CollGroupParams& group, const ExecKey& exec,
                       absl::Status reason) override {
    EXPECT_EQ(group.key, exec.group);
    EXPECT_EQ(group.generation, exec.generation);
    calls_->push_back(absl::StrCat("cancel ", ToString(exec)));
    LocalPeerAccess::CancelExecution(group, exec, std::move(reason));
  }
  void ForgetExecution(const ExecKey& exec) override {
    calls_->push_back(absl::StrCat("forget ", ToString(exec)));
    LocalPeerAccess::ForgetExecution(exec);
  }

 private:
  std::vector<std::string>* const calls_;
};

TEST(CancellationTest, NothingIsCancelledOnceItIsForgotten) {
  std::vector<std::string> calls;
  LocalJob job({.devices_per_task = 2, .make_peer_access = [&](int64_t) {
                  return std::make_unique<Recorder>(&calls);
                }});
  CollectiveRequest dependent = job.AllReduceRequest(4);
  dependent.instance_key = 2;
  dependent.impl_details.dependencies = {{1, 1}};
  // Cancels in each phase: group, instance, dependencies, run.
  const auto token = std::make_shared<Cancellation>();
  job.StartAll(dependent, [&](auto& args) { args.cancellation = token; });
  token->Cancel(absl::CancelledError("changed my mind"));
  job.environment().RunAll();
  const auto second = std::make_shared<Cancellation>();
  const CollectiveRequest request = job.AllReduceRequest(4);
  RunOnce(job, request);
  job.RunAll(request, [&](auto& args) {
    args.cancellation = second;
    second->Cancel(absl::CancelledError("in time"));
  });
  absl::flat_hash_set<std::string> cancelled;
  for (const std::string& call : calls) {
    const auto [verb, exec] = std::pair<std::string, std::string>(
        absl::StrSplit(call, absl::MaxSplits(' ', 1)));
    if (verb == "cancel") cancelled.insert(exec);
    if (verb == "forget") cancelled.erase(exec);
  }
  EXPECT_THAT(cancelled, IsEmpty());
}

// Covers a call that waits for its group, and a call that fails before.
TEST(CancellationTest, ACallThatEndsEarlyLetsItsTensorsGoFirst) {
  LocalJob job({.devices_per_task = 2});
  CollectiveRequest invalid = job.AllReduceRequest(4);
  invalid.group_size = 0;
  for (const CollectiveRequest& request : {job.AllReduceRequest(4), invalid}) {
    const auto token = std::make_shared<Cancellation>();
    std::vector<float> memory(4);
    bool is_free = false;
    bool was_free_at_end = false;
    job.executor().ExecuteAsync(
        {.device = job.devices()[0],
         .request = std::make_shared<const CollectiveRequest>(request),
         .input = Tensor::Wrap(request.dtype, request.shape, memory.data(),
                               [&is_free] { is_free = true; })
                      .value(),
         .cancellation = token},
        [&](const absl::Status& status) {
          EXPECT_FALSE(status.ok());
          was_free_at_end = is_free;
        });
    token->Cancel(absl::CancelledError("enough"));
    job.environment().RunAll();
    EXPECT_TRUE(was_free_at_end);
  }
}

// Ends of a call that waits for dependencies, and limits of the wait. The
// conformance suite (execution_suite.cc) tests that every implementation
// waits.

class DependenciesTest : public testing::TestWithParam<std::string> {
 protected:
  DependenciesTest() : job_({.devices_per_task = 2}) {
    first_ = job_.AllReduceRequest(4);
    first_.impl_details.implementation = GetParam();
    second_ = first_;
    second_.instance_key = 2;
    second_.impl_details.dependencies = {{1, 1}};
  }

  // Settles both instances, so that later calls wait only for each other.
  void RunBothOnce() {
    job_.RunAll(first_);
    ExpectEnds(job_.RunAll(second_), IsOk());
  }

  LocalJob job_;
  CollectiveRequest first_;
  CollectiveRequest second_;
};

TEST_P(DependenciesTest, DeadlineWakesWhoWaits) {
  RunBothOnce();
  const auto waiting = job_.RunAll(second_, [&](CollectiveArgs& args) {
    args.deadline = job_.environment().get().clock->Now() + absl::Seconds(1);
  });
  job_.environment().Advance(absl::Seconds(1));
  ExpectEnds(waiting, IsDeadlineExceeded("dependencies: group 1, "
                                         "instance 1 had not been "
                                         "launched"));
}

TEST_P(DependenciesTest, FailedDependencyHoldsNobodyBack) {
  RunBothOnce();
  const auto waiting = job_.RunAll(second_);
  const auto token = std::make_shared<Cancellation>();
  token->Cancel(absl::CancelledError("not this time"));
  ExpectEnds(
      job_.RunAll(first_, [&](auto& args) { args.cancellation = token; }),
      IsCancelled("not this time"));
  ExpectEnds(waiting, IsOk());
}

TEST_P(DependenciesTest, FailureBeforeAllHaveComeHoldsNobodyBack) {
  RunBothOnce();
  const auto token = std::make_shared<Cancellation>();
  job_.Start(0, first_, [&](auto& args) { args.cancellation = token; });
  const auto waiting = job_.RunAll(second_);
  token->Cancel(absl::CancelledError("not this time"));
  job_.environment().RunAll();
  ExpectEnds(waiting, IsOk());
}

TEST_P(DependenciesTest, LongChainNeedsNoStack) {
  constexpr int kLength = 20'000;
  std::vector<LocalJob::Call*> calls;
  CollectiveRequest request = first_;
  for (int i = kLength; i > 0; --i) {
    request.instance_key = i;
    request.impl_details.dependencies = {{1, i - 1}};
    for (int device : {0, 1}) calls.push_back(&job_.Start(device, request));
  }
  request.instance_key = 0;
  request.impl_details.dependencies.clear();
  ExpectEnds(job_.RunAll(request), IsOk());
  ExpectEnds(calls, IsOk());
}

INSTANTIATE_TEST_SUITE_P(Implementations, DependenciesTest,
                         testing::Values("LocalReduce", "RingReduce",
                                         "TreeReduce"));

}  // namespace endings_test
}  // namespace tutti
