// Many threads of each rank request named tensors at once.

#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/cluster/named_tensor_cases.h"
#include "tests/cluster/named_tensor_job.h"
#include "tests/doubles/status_matchers.h"
#include "tests/doubles/stoppable_environment.h"
#include "tutti/environment.h"

namespace tutti {
namespace named_tensors_concurrency_test {

constexpr int kNumRanks = 3;

class NamedTensorsConcurrencyTest : public testing::Test {
 protected:
  NamedTensorsConcurrencyTest() {
    BlockingCounter joined(kNumRanks);
    for (int rank = 0; rank < kNumRanks; ++rank) {
      job_.runtime(rank).Join(environment_.Now() + absl::Seconds(60), nullptr,
                              [&joined](const absl::Status& status) {
                                EXPECT_THAT(status, IsOk());
                                joined.DecrementCount();
                              });
    }
    joined.Wait();
  }
  ~NamedTensorsConcurrencyTest() override { environment_.Stop(); }

  RanksHere ranks() {
    RanksHere ranks{.num_ranks = kNumRanks};
    for (int rank = 0; rank < kNumRanks; ++rank) {
      ranks.coordinators[rank] = &job_.at(rank);
    }
    return ranks;
  }

  StoppableEnvironment environment_;
  NamedTensorJob job_{kNumRanks, environment_.get(), {}};
};

TEST_F(NamedTensorsConcurrencyTest, AllThreadsOfAllRanksMeet) {
  ExpectAllThreadsMeet(ranks());
}

TEST_F(NamedTensorsConcurrencyTest, AShutdownAmongThreadsLeavesNobodyWaiting) {
  const auto ran = ExpectAShutdownLeavesNoThreadWaiting(ranks(), /*by=*/1);
  for (int rank = 0; rank < kNumRanks; ++rank) {
    EXPECT_EQ(ran.at(rank), ran.at(1));
  }
}

TEST_F(NamedTensorsConcurrencyTest, ChainsOfRequestsNeedNoStack) {
  ExpectChainsEnd(ranks());
}

}  // namespace named_tensors_concurrency_test
}  // namespace tutti
