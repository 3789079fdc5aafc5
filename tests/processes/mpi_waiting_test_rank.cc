// Tests of collectives that end before MPI runs them, while they wait for a
// member: by cancellation, at their deadline, with their group and with a
// runtime; of ranks that begin them in different orders; and of steps that
// processes clean up and agree on. Part of the program of
// mpi_collectives_test_rank.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/doubles/status_matchers.h"
#include "tests/processes/mpi_collectives_testing.h"
#include "tutti/cluster_runtime.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/params.h"
#include "tutti/tensor.h"

namespace tutti {
namespace mpi_waiting_test_rank {

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
        EXPECT_THAT(call.Wait(), IsAborted("no more of this"));
      }
      // Other members' later calls fail too: see below.
      Call barrier{.request = RequestOf("", Barrier(), DType::kInt32, shape)};
      Start(barrier, /*step=*/30);
      ASSERT_THAT(barrier.Wait(), IsOk());
      if (rank() == absent) {
        Call late{.request = request,
                  .input = Filled(DType::kInt32, shape, rank())};
        Start(late, /*step=*/10 + absent);
        EXPECT_THAT(late.Wait(), IsAborted("no more of this"));
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
  EXPECT_THAT(call.Wait(), IsAborted("over"));
}

// All ranks but one wait for this rank. Then either this rank ends its runtime
// without a message, or the others end theirs.
TEST_F(MpiWaitingTest, TheEndOfARuntimeEndsWhatWaitsInItAndForIt) {
  if (size() == 1) return;
  for (const int64_t count : {kFew, kMany}) {
    for (const bool absent_ends : {false, true}) {
      const TensorShape shape = TensorShape::Vector(count);
      Call call = CallOf("MpiReduce", AllReduce(), DType::kInt32, shape);
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

// Every rank starts the collectives in a different order, all before the first
// one ends.
TEST_F(MpiCollectivesTest, RanksMayStartStepsAndInstancesInAnyOrder) {
  constexpr int kNumSteps = 5, kNumInstances = 6, kNumRounds = 4;
  const TensorShape shape = TensorShape::Vector(513);
  std::mt19937 random(static_cast<unsigned>(rank()));
  std::vector<CollectiveRequest> requests;
  for (int i = 0; i < kNumInstances; ++i) {
    requests.push_back(
        i % 2 == 0 ? RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape)
                   : RequestOf("MpiBroadcast", Broadcast{rank() == i % size()},
                               DType::kInt32, shape));
  }
  for (int round = 0; round < kNumRounds; ++round) {
    std::vector<int> order(kNumSteps * kNumInstances);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    std::deque<Call> calls(order.size());
    for (const int i : order) {
      const int instance = i % kNumInstances;
      calls[i].request = requests[instance];
      calls[i].input = Filled(DType::kInt32, shape, rank() + i);
      Start(calls[i], /*step=*/1 + i / kNumInstances);
    }
    for (const int i : order) {
      EXPECT_THAT(calls[i].Wait(), IsOk());
      const int instance = i % kNumInstances;
      Check(calls[i].output, [&](int64_t e) {
        if (instance % 2 == 1) return Value(instance % size() + i, e);
        int sum = 0;
        for (int r = 0; r < size(); ++r) sum += Value(r + i, e);
        return sum;
      });
    }
  }
}

// Group g begins at rank g: all pairs of neighbours, and all rotations of the
// ranks, each with another leader. Meanwhile MPI makes their communicators.
TEST_F(MpiCollectivesTest, GroupsThatOverlapMayBeginInAnyOrder) {
  const TensorShape shape = TensorShape::Vector(kMany);
  std::vector<std::pair<int, int>> groups;  // First task and number of tasks.
  for (int first = 0; first < size(); ++first) {
    groups.emplace_back(first, size());
    if (size() > 2) groups.emplace_back(first, 2);
    groups.emplace_back(first, 1);
  }
  std::vector<int> order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(),
               std::mt19937(static_cast<unsigned>(rank() * 7)));
  for (int round = 0; round < 3; ++round) {
    std::deque<Call> calls(groups.size());
    for (const int g : order) {
      const auto [first, num_tasks] = groups[g];
      const int own = (rank() - first + size()) % size();
      if (own >= num_tasks) continue;
      Call& call = calls[g];
      call.request = RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape);
      call.request.group_key = 100 + g;
      call.request.group_size = num_tasks;
      call.request.rank = own;
      call.request.instance_key = 1;
      call.input = Filled(DType::kInt32, shape, rank());
      Start(call, 1 + round);
    }
    for (const int g : order) {
      const auto [first, num_tasks] = groups[g];
      if ((rank() - first + size()) % size() >= num_tasks) continue;
      EXPECT_THAT(calls[g].Wait(), IsOk());
      Check(calls[g].output, [&](int64_t i) {
        int sum = 0;
        for (int m = 0; m < groups[g].second; ++m) {
          sum += Value((groups[g].first + m) % size(), i);
        }
        return sum;
      });
    }
  }
}

// The members have begun some of the cleaned-up step's collectives, and have
// more to send than fits at once.
TEST_F(MpiCollectivesTest, AStepThatIsCleanedUpLeavesNothingToTheNext) {
  constexpr absl::Duration kLimit = absl::Seconds(30);
  constexpr size_t kNumInstances = 100;
  constexpr int64_t kMostSteps = 8;
  for (const int64_t count : {kFew, kMany}) {
    const TensorShape shape = TensorShape::Vector(count);
    const int64_t first_step = count == kFew ? 2 : 2 + kMostSteps;
    std::vector<CollectiveRequest> requests;
    for (size_t i = 0; i < kNumInstances; ++i) {
      requests.push_back(
          RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape));
    }
    const auto start_all = [&](std::deque<Call>& calls, int value_of,
                               int64_t step) {
      for (const CollectiveRequest& request : requests) {
        Call& call = calls.emplace_back();
        call.request = request;
        call.input = Filled(DType::kInt32, shape, value_of);
        Start(call, step, nullptr, 0, kLimit);
      }
    };
    std::deque<Call> settle;
    start_all(settle, rank(), /*step=*/1);
    for (Call& call : settle) EXPECT_THAT(call.Wait(), IsOk());
    for (int64_t step = first_step; step < first_step + kMostSteps; step += 2) {
      std::deque<Call> interrupted;
      if (rank() > 0) start_all(interrupted, /*value_of=*/100, step);
      // Once this ends, rank 0 knows which members are ready.
      Call known{.request = RequestOf("MpiReduce", AllReduce(), DType::kInt32,
                                      TensorShape::Vector(1)),
                 .input = Filled(DType::kInt32, TensorShape::Vector(1), 0)};
      Start(known);
      EXPECT_THAT(known.Wait(), IsOk());
      if (rank() == 0) {
        EXPECT_THAT(Await([&](StatusCallback done) {
                      runtime_->CleanupStep(step, std::move(done));
                    }),
                    IsOk());
      }
      std::deque<Call> next;
      start_all(next, rank(), step + 1);
      for (Call& call : interrupted) EXPECT_FALSE(call.Wait().ok());
      for (Call& call : next) {
        EXPECT_THAT(call.Wait(), IsOk());
        Check(call.output, [&](int64_t i) { return SumOf(i); });
      }
    }
  }
}

TEST_F(MpiCollectivesTest, AllProcessesThatRefreshGoOnFromTheSameStep) {
  constexpr int64_t kGraph = 5;
  StepSequenceInterface& sequence = runtime_->manager().step_sequence();
  EXPECT_EQ(sequence.NextStepId(kGraph), kInvalidStepId);
  EXPECT_THAT(Await([&](StatusCallback done) {
                sequence.RefreshStepIdSequenceAsync(kGraph, std::move(done));
              }),
              IsOk());
  const int64_t first = sequence.NextStepId(kGraph);
  EXPECT_GE(first, 0);
  const TensorShape shape = TensorShape::Vector(1);
  Call of_all{
      .request = RequestOf("MpiGather", AllGather(), DType::kInt64, shape),
      .input = *Tensor::Allocate(DType::kInt64, shape)};
  StoreInteger(DType::kInt64, first, of_all.input.mutable_data());
  Start(of_all);
  EXPECT_THAT(of_all.Wait(), IsOk());
  for (int r = 0; r < size(); ++r) {
    EXPECT_EQ(std::memcmp(of_all.output.data() + 8 * r, &first, 8), 0) << r;
  }
  sequence.RetireStepId(kGraph, first);
  EXPECT_EQ(sequence.NextStepId(kGraph), first + 1);
}

}  // namespace mpi_waiting_test_rank
}  // namespace tutti
