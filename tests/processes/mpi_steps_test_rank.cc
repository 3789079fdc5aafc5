// Tests of steps that processes of an MPI job clean up and agree on. Part of
// the program of mpi_collectives_test_rank.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "absl/status/status.h"
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
namespace {

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

}  // namespace
}  // namespace tutti
