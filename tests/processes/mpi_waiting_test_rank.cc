// Tests of collectives that end before MPI runs them, while they wait for a
// member: by cancellation, at their deadline, with their group and with a
// runtime. Part of the program of mpi_collectives_test_rank.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/doubles/status_matchers.h"
#include "tests/processes/mpi_collectives_testing.h"
#include "tutti/cluster_runtime.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class MpiCancelledTest : public MpiCollectivesTest {
 protected:
  void CancelAllReduceOf(int64_t count);
};

void MpiCancelledTest::CancelAllReduceOf(int64_t count) {
  const TensorShape shape = TensorShape::Vector(count);
  const auto request =
      RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape);
  const auto next = RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape);
  // Settles the instance and, for reductions by MPI, makes a communicator.
  Call first{.request = request, .input = Filled(DType::kInt32, shape, rank())};
  Start(first);
  ASSERT_THAT(first.Wait(), IsOk());
  if (size() > 1) {
    for (int absent = 0; absent < size(); ++absent) {
      if (rank() != absent) {
        Call call{.request = request,
                  .input = Filled(DType::kInt32, shape, rank())};
        const auto cancellation = std::make_shared<Cancellation>();
        Start(call, /*step=*/10 + absent, cancellation);
        if (rank() == (absent + 1) % size()) {
          cancellation->Cancel(absl::AbortedError("no more of this"));
        }
        EXPECT_THAT(call.Wait(), StatusIs(absl::StatusCode::kAborted,
                                          HasSubstr("no more of this")));
      }
      // Other members' later calls fail too: see below.
      Call barrier{.request = RequestOf("", Barrier(), DType::kInt32, shape)};
      Start(barrier, /*step=*/30);
      ASSERT_THAT(barrier.Wait(), IsOk());
      if (rank() == absent) {
        Call late{.request = request,
                  .input = Filled(DType::kInt32, shape, rank())};
        Start(late, /*step=*/10 + absent);
        EXPECT_THAT(late.Wait(), StatusIs(absl::StatusCode::kAborted,
                                          HasSubstr("no more of this")));
      }
    }
  }
  Call after{.request = next, .input = Filled(DType::kInt32, shape, rank())};
  Start(after);
  ASSERT_THAT(after.Wait(), IsOk());
  Check(after.output, [&](int64_t i) { return SumOf(i); });
}

TEST_F(MpiCancelledTest, WhatHasNotBegunEndsWithTheErrorOfAnyMember) {
  CancelAllReduceOf(kFew);
}

TEST_F(MpiCancelledTest, SoDoesWhatMpiWouldReduce) { CancelAllReduceOf(kMany); }

class MpiWaitingTest : public MpiCollectivesTest {
 protected:
  // Waits for a member that does not call. Only the lowest calling rank has a
  // deadline.
  void WaitForAbsent(int absent, int64_t count) {
    const TensorShape shape = TensorShape::Vector(count);
    const auto request =
        RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape);
    // Settles the instance.
    Call first{.request = request,
               .input = Filled(DType::kInt32, shape, rank())};
    Start(first);
    ASSERT_THAT(first.Wait(), IsOk());
    if (rank() != absent) {
      Call call{.request = request,
                .input = Filled(DType::kInt32, shape, rank())};
      const bool is_lowest = rank() == (absent == 0 ? 1 : 0);
      Start(call, /*step=*/1, /*cancellation=*/nullptr, /*device=*/0,
            is_lowest ? absl::Milliseconds(500) : absl::InfiniteDuration());
      const bool has_leader = size() > 2 || count == kMany;
      const auto is_of_leader = HasSubstr(", which says when all are ready");
      EXPECT_THAT(call.Wait(),
                  StatusIs(absl::StatusCode::kDeadlineExceeded,
                           AllOf(HasSubstr("who wait for data of "),
                                 HasSubstr(absl::StrCat("rank ", absent, " (")),
                                 testing::Conditional(
                                     absent == 0 && has_leader, is_of_leader,
                                     testing::Not(is_of_leader)))));
    }
    Call barrier{.request = RequestOf("", Barrier(), DType::kInt32, shape)};
    Start(barrier);
    ASSERT_THAT(barrier.Wait(), IsOk());
  }
};

TEST_F(MpiWaitingTest, WhoIsWaitedForIsNamedWhenTheDeadlinePasses) {
  if (size() == 1) return;
  for (const int64_t count : {kFew, kMany}) {
    for (const int absent : {size() - 1, 0}) WaitForAbsent(absent, count);
  }
}

TEST_F(MpiCollectivesTest, TheEndOfAGroupEndsWhatHasNotBegun) {
  if (size() == 1) return;
  const TensorShape shape = TensorShape::Vector(100);
  const auto request =
      RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape);
  Call first{.request = request, .input = Filled(DType::kInt32, shape, rank())};
  Start(first);
  ASSERT_THAT(first.Wait(), IsOk());
  Call barrier{.request = RequestOf("", Barrier(), DType::kInt32, shape)};
  barrier.request.group_key = 7;
  Start(barrier, /*step=*/3);
  ASSERT_THAT(barrier.Wait(), IsOk());
  if (rank() == size() - 1) {
    return runtime_->ReformGroup(request.group_key, absl::AbortedError("over"));
  }
  // Joins the group before or after its end; after it, the call waits for the
  // next generation.
  Call call{.request = request, .input = Filled(DType::kInt32, shape, rank())};
  const auto cancellation = std::make_shared<Cancellation>();
  Start(call, /*step=*/2, cancellation);
  cancellation->Cancel(absl::AbortedError("over"));
  EXPECT_THAT(call.Wait(),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("over")));
}

// All ranks but one wait for this rank. Then either this rank ends its runtime
// without a message, or the others end theirs.
TEST_F(MpiWaitingTest, TheEndOfARuntimeEndsWhatWaitsInItAndForIt) {
  if (size() == 1) return;
  for (const int64_t count : {kFew, kMany}) {
    for (const bool absent_ends : {false, true}) {
      const TensorShape shape = TensorShape::Vector(count);
      Call call{
          .request = RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape),
          .input = Filled(DType::kInt32, shape, rank())};
      // Settles the instance.
      Start(call);
      ASSERT_THAT(call.Wait(), IsOk());
      // A rank whose barrier has ended knows that the first collective has
      // ended on all ranks; the barrier itself may still run on others.
      Call barrier{.request = RequestOf("", Barrier(), DType::kInt32, shape)};
      Start(barrier);
      barrier.Wait().IgnoreError();
      const bool is_absent = rank() == 0;
      Call waiting{.request = call.request, .input = call.input};
      if (!is_absent) Start(waiting, /*step=*/2);
      if (is_absent == absent_ends) runtime_.reset();
      if (!is_absent) {
        EXPECT_THAT(waiting.Wait(), testing::Not(IsOk()));
      }
      runtime_.reset();
      SetUp();
    }
  }
}

}  // namespace
}  // namespace tutti
