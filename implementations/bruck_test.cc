#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "implementations/binomial_tree.h"
#include "implementations/plan_testing.h"

namespace tutti {
namespace {

using testing::SizeIs;

VerifyCase AllGather(int num_ranks) {
  return {.layout = GroupLayout::Uniform(1, num_ranks),
          .type = CollectiveType::kAllGather};
}

TEST(BruckGatherTest, TakesTheLogarithmOfTheRanks) {
  for (int n = 1; n <= 65; ++n) {
    EXPECT_EQ(TransfersInARow("BruckGather", AllGather(n)), CeilLog2(n));
  }
}

TEST(BruckGatherTest, EveryRankSendsAndReceivesTheLeastPossible) {
  for (int n = 1; n <= 65; ++n) {
    for (const Schedule& plan : PlansOf("BruckGather", AllGather(n))) {
      EXPECT_EQ(plan.num_chunks, n);
      EXPECT_THAT(StepsOf(plan, StepKind::kSend), SizeIs(n - 1));
      EXPECT_THAT(StepsOf(plan, StepKind::kRecv), SizeIs(n - 1));
    }
  }
}

TEST(BruckGatherTest, CopiesTheOwnBlockAloneAndSetsNothingAside) {
  for (const Schedule& plan : PlansOf("BruckGather", AllGather(6))) {
    EXPECT_THAT(StepsOf(plan, StepKind::kCopy), SizeIs(1));
    for (const Step& receive : StepsOf(plan, StepKind::kRecv)) {
      EXPECT_EQ(receive.into.space, Space::kData);
    }
  }
}

}  // namespace
}  // namespace tutti
