// Ends of a call that waits for dependencies, and limits of the wait. The
// conformance suite (dependency_suite.cc) tests that every implementation
// waits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace dependencies_test {

using absl::StatusCode;
using testing::HasSubstr;

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
    for (const LocalJob::Call* call : job_.RunAll(second_)) {
      ASSERT_EQ(call->num_done, 1);
      ASSERT_THAT(*call->status, IsOk());
    }
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
  for (const LocalJob::Call* call : waiting) {
    ASSERT_EQ(call->num_done, 1);
    EXPECT_THAT(*call->status, StatusIs(StatusCode::kDeadlineExceeded,
                                        HasSubstr("dependencies: group 1, "
                                                  "instance 1 had not been "
                                                  "launched")));
  }
}

TEST_P(DependenciesTest, FailedDependencyHoldsNobodyBack) {
  RunBothOnce();
  const auto waiting = job_.RunAll(second_);
  const auto token = std::make_shared<Cancellation>();
  token->Cancel(absl::CancelledError("not this time"));
  for (const LocalJob::Call* call :
       job_.RunAll(first_, [&](auto& args) { args.cancellation = token; })) {
    EXPECT_THAT(*call->status,
                StatusIs(StatusCode::kCancelled, HasSubstr("not this time")));
  }
  for (const LocalJob::Call* call : waiting) {
    ASSERT_EQ(call->num_done, 1);
    EXPECT_THAT(*call->status, IsOk());
  }
}

TEST_P(DependenciesTest, FailureBeforeAllHaveComeHoldsNobodyBack) {
  RunBothOnce();
  const auto token = std::make_shared<Cancellation>();
  job_.Start(0, first_, [&](auto& args) { args.cancellation = token; });
  const auto waiting = job_.RunAll(second_);
  token->Cancel(absl::CancelledError("not this time"));
  job_.environment().RunAll();
  for (const LocalJob::Call* call : waiting) {
    ASSERT_EQ(call->num_done, 1);
    EXPECT_THAT(*call->status, IsOk());
  }
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
  for (const LocalJob::Call* call : job_.RunAll(request)) {
    ASSERT_EQ(call->num_done, 1);
  }
  for (const LocalJob::Call* call : calls) {
    ASSERT_EQ(call->num_done, 1);
    ASSERT_THAT(*call->status, IsOk());
  }
}

INSTANTIATE_TEST_SUITE_P(Implementations, DependenciesTest,
                         testing::Values("LocalReduce", "RingReduce",
                                         "TreeReduce"));

}  // namespace dependencies_test
}  // namespace tutti
