#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "implementations/plan_testing.h"

namespace tutti {
namespace ring_test {

using testing::IsEmpty;
using testing::SizeIs;

VerifyCase Ring(CollectiveType type, int num_ranks,
                std::vector<int> offsets = {0}) {
  return {.layout = GroupLayout::Uniform(1, num_ranks),
          .type = type,
          .subdiv_offsets = std::move(offsets)};
}

TEST(RingReduceTest, TakesTwiceTheOthersSteps) {
  for (int n : {1, 2, 3, 8, 17}) {
    EXPECT_EQ(
        TransfersInARow("RingReduce", Ring(CollectiveType::kAllReduce, n)),
        2 * (n - 1));
    EXPECT_EQ(TransfersInARow("RingReduce",
                              Ring(CollectiveType::kAllReduce, n, {0, -1, 2})),
              2 * (n - 1));
  }
}

TEST(RingReduceTest, EveryRankSendsToTheNextInTheList) {
  VerifyCase request = Ring(CollectiveType::kAllReduce, 5);
  request.rank_list = {3, 0, 4, 2, 1};
  const auto plans = PlansOf("RingReduce", request);
  for (int place = 0; place < 5; ++place) {
    const auto& plan = plans[request.rank_list[place]];
    for (const Step& step : StepsOf(plan, StepKind::kSend)) {
      EXPECT_EQ(step.peer, request.rank_list[(place + 1) % 5]);
    }
  }
}

TEST(RingReduceTest, EveryRankSendsTheLeastPossible) {
  const int n = 6;
  for (const Schedule& plan :
       PlansOf("RingReduce", Ring(CollectiveType::kAllReduce, n, {0, -1}))) {
    EXPECT_EQ(plan.num_chunks, 2 * n);  // 2 rings; each sends 2 (n - 1) of n.
    EXPECT_THAT(StepsOf(plan, StepKind::kSend), SizeIs(2 * 2 * (n - 1)));
    EXPECT_THAT(StepsOf(plan, StepKind::kReduce), SizeIs(2 * (n - 1)));
  }
}

TEST(RingReduceTest, FirstSendIsStraightFromTheInputAndNothingIsCopied) {
  for (const Schedule& plan :
       PlansOf("RingReduce", Ring(CollectiveType::kAllReduce, 5, {0, 2}))) {
    EXPECT_THAT(StepsOf(plan, StepKind::kCopy), IsEmpty());
    ASSERT_THAT(plan.lanes, SizeIs(4));
    EXPECT_EQ(plan.lanes[0][0].left.space, Space::kInput);
    EXPECT_EQ(plan.lanes[2][0].left.space, Space::kInput);
  }
}

TEST(RingReduceTest, EveryReceivedSumIsReadOnceByTheNextStep) {
  for (const Schedule& plan :
       PlansOf("RingReduce", Ring(CollectiveType::kAllReduce, 5))) {
    const Lane& receives = plan.lanes[1];
    for (size_t i = 0; i < 8; i += 2) {
      EXPECT_EQ(receives[i].kind, StepKind::kRecv);
      EXPECT_EQ(receives[i].into.space, Space::kScratch);
      EXPECT_EQ(receives[i + 1].kind, StepKind::kReduce);
      EXPECT_EQ(receives[i + 1].left, receives[i].into);
      EXPECT_FALSE(receives[i + 1].after.is_set());
    }
  }
}

TEST(RingReduceTest, PartsAreAddedOnTheRightFromTheRankAfterTheOwner) {
  const VerifyCase request = Ring(CollectiveType::kAllReduce, 4);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(OutputOf("RingReduce", request, rank, 0),
              "f(((1.0+2.0)+3.0)+0.0)");
    EXPECT_EQ(OutputOf("RingReduce", request, rank, 2),
              "f(((3.2+0.2)+1.2)+2.2)");
  }
  EXPECT_EQ(OutputOf("RingReduce", Ring(CollectiveType::kAllReduce, 4, {0, -4}),
                     0, 1),
            "f(((3.1+2.1)+1.1)+0.1)");
}

TEST(RingReduceTest, OneRankAppliesTheFinalOp) {
  EXPECT_EQ(OutputOf("RingReduce", Ring(CollectiveType::kAllReduce, 1), 0, 0),
            "f0.0");
}

TEST(RingGatherTest, TakesAsManyStepsAsThereAreOthers) {
  for (int n : {1, 2, 3, 8, 17}) {
    EXPECT_EQ(
        TransfersInARow("RingGather", Ring(CollectiveType::kAllGather, n)),
        n - 1);
  }
}

TEST(RingGatherTest, EveryRankSendsEachBlockOnceAndCopiesItsOwn) {
  const int n = 6;
  for (const Schedule& plan :
       PlansOf("RingGather", Ring(CollectiveType::kAllGather, n, {0, -1}))) {
    EXPECT_THAT(StepsOf(plan, StepKind::kSend), SizeIs(2 * (n - 1)));
    EXPECT_THAT(StepsOf(plan, StepKind::kCopy), SizeIs(2));  // Pieces.
    EXPECT_EQ(plan.lanes[0][0].left.space, Space::kInput);
  }
}

TEST(RingReduceScatterTest, TakesAsManyStepsAsThereAreOthers) {
  for (int n : {1, 2, 3, 8, 17}) {
    EXPECT_EQ(TransfersInARow("RingReduceScatter",
                              Ring(CollectiveType::kReduceScatter, n)),
              n - 1);
  }
}

TEST(RingReduceScatterTest, EveryRankSendsTheLeastPossible) {
  const int n = 6;
  for (const Schedule& plan :
       PlansOf("RingReduceScatter", Ring(CollectiveType::kReduceScatter, n))) {
    EXPECT_THAT(StepsOf(plan, StepKind::kSend), SizeIs(n - 1));
    EXPECT_THAT(StepsOf(plan, StepKind::kReduce), SizeIs(n - 1));
    EXPECT_THAT(StepsOf(plan, StepKind::kCopy), IsEmpty());
    EXPECT_EQ(plan.lanes[0][0].left.space, Space::kInput);
  }
}

TEST(RingReduceScatterTest, KeepsNoMoreThanTwoPartialSumsPerRing) {
  for (const Schedule& plan :
       PlansOf("RingReduceScatter", Ring(CollectiveType::kReduceScatter, 9))) {
    std::vector<Slot> kept;
    for (const Step& reduce : StepsOf(plan, StepKind::kReduce)) {
      if (reduce.into.space == Space::kScratch &&
          std::find(kept.begin(), kept.end(), reduce.into) == kept.end()) {
        kept.push_back(reduce.into);
      }
    }
    EXPECT_THAT(kept, SizeIs(2));
  }
}

TEST(RingReduceScatterTest, SumsEndAtTheirOwners) {
  EXPECT_EQ(OutputOf("RingReduceScatter",
                     Ring(CollectiveType::kReduceScatter, 4), 2, 2),
            "f(((3.2+0.2)+1.2)+2.2)");
}

TEST(RingTest, LargeTensorsAreSubdividedByDefault) {
  const GroupLayout layout = GroupLayout::Uniform(1, 8);
  for (const char* name : {"RingReduce", "RingGather", "RingReduceScatter"}) {
    const Algorithm& algorithm = AlgorithmNamed(name);
    ASSERT_TRUE(algorithm.traits.supports_subdivisions);
    EXPECT_THAT(
        algorithm.subdivide({.layout = layout, .bytes = int64_t{64} << 20}),
        testing::ElementsAre(0, -4));
  }
}

}  // namespace ring_test
}  // namespace tutti
