#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "implementations/binomial_tree.h"
#include "implementations/plan_testing.h"

namespace tutti {
namespace {

using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;

VerifyCase Among(int num_ranks, CollectiveType type) {
  return {.layout = GroupLayout::Uniform(1, num_ranks), .type = type};
}

VerifyCase AllReduce(int num_ranks) {
  return Among(num_ranks, CollectiveType::kAllReduce);
}

bool IsPowerOfTwo(int value) { return (value & (value - 1)) == 0; }

// Which arrivals in scratch are not reduced by the very next step.
std::vector<Step> KeptArrivals(const Schedule& plan) {
  std::vector<Step> kept;
  for (const Lane& lane : plan.lanes) {
    for (size_t i = 0; i < lane.size(); ++i) {
      const Slot arrived = lane[i].into;
      if (lane[i].kind != StepKind::kRecv) continue;
      if (arrived.space != Space::kScratch) continue;
      const bool is_read =
          i + 1 < lane.size() && lane[i + 1].kind == StepKind::kReduce &&
          (lane[i + 1].left == arrived) != (lane[i + 1].right == arrived);
      if (!is_read) kept.push_back(lane[i]);
    }
  }
  return kept;
}

TEST(RecursiveDoublingReduceTest, TakesTheLogarithmOfTheRanks) {
  for (int n = 1; n <= 65; ++n) {
    EXPECT_EQ(TransfersInARow("RecursiveDoublingReduce", AllReduce(n)),
              CeilLog2(n));
  }
}

TEST(RecursiveDoublingReduceTest, SendsTheBufferOnceAStepOrTwiceToAPair) {
  for (int n = 1; n <= 65; ++n) {
    const int steps = CeilLog2(n);
    for (const Schedule& plan :
         PlansOf("RecursiveDoublingReduce", AllReduce(n))) {
      EXPECT_EQ(plan.num_chunks, 1);
      EXPECT_THAT(StepsOf(plan, StepKind::kRecv), SizeIs(Le(steps)));
      if (IsPowerOfTwo(n)) {
        EXPECT_THAT(StepsOf(plan, StepKind::kSend), SizeIs(steps));
      } else {
        EXPECT_THAT(StepsOf(plan, StepKind::kSend), SizeIs(Le(2 * steps)));
      }
    }
  }
}

TEST(RecursiveDoublingReduceTest, AllGetOneSumInTheOrderOfRanks) {
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(OutputOf("RecursiveDoublingReduce", AllReduce(5), rank, 0),
              "f(((0.0+1.0)+2.0)+(3.0+4.0))");
  }
  for (int n = 1; n <= 33; ++n) {
    const std::string first =
        OutputOf("RecursiveDoublingReduce", AllReduce(n), 0, 0);
    for (int rank = 1; rank < n; ++rank) {
      EXPECT_EQ(OutputOf("RecursiveDoublingReduce", AllReduce(n), rank, 0),
                first);
    }
  }
}

TEST(RecursiveDoublingReduceTest, EveryReceivedSumIsReadOnceByTheNextStep) {
  for (int n : {2, 5, 16}) {
    for (const Schedule& plan :
         PlansOf("RecursiveDoublingReduce", AllReduce(n))) {
      EXPECT_THAT(KeptArrivals(plan), IsEmpty());
    }
  }
}

TEST(RecursiveDoublingReduceTest, OnlyInPlaceIsTheInputCopied) {
  VerifyCase request = AllReduce(6);
  for (const Schedule& plan : PlansOf("RecursiveDoublingReduce", request)) {
    EXPECT_THAT(StepsOf(plan, StepKind::kCopy), IsEmpty());
  }
  request.in_place = InPlace::kAll;
  for (const Schedule& plan : PlansOf("RecursiveDoublingReduce", request)) {
    EXPECT_THAT(StepsOf(plan, StepKind::kCopy), SizeIs(1));
    for (const Step& send : StepsOf(plan, StepKind::kSend)) {
      EXPECT_EQ(send.left.space, Space::kScratch);
    }
  }
}

TEST(RecursiveDoublingReduceTest, HoldsOnManyRanks) {
  for (int n : {4096, 5000}) {
    EXPECT_EQ(Verify(AlgorithmNamed("RecursiveDoublingReduce"), AllReduce(n)),
              absl::OkStatus());
  }
}

}  // namespace
}  // namespace tutti
