#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "implementations/parts/binomial_tree.h"
#include "implementations/plan_testing.h"

namespace tutti {
namespace ring_test {

using ::testing::IsEmpty;
using ::testing::SizeIs;

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

// Tests of algorithms in which data goes straight from its source to its
// target.

constexpr int kRanks = 19;

VerifyCase On(CollectiveType type, int num_ranks = kRanks) {
  return {.layout = GroupLayout::Uniform(1, num_ranks),
          .type = type,
          .root = num_ranks / 2};
}

// Returns the number of scratch slots that a schedule uses.
int ScratchSlots(const Schedule& schedule) {
  std::set<std::pair<int, int>> slots;
  const auto add = [&](const Slot& slot) {
    if (slot.space == Space::kScratch) slots.emplace(slot.chunk, slot.bank);
  };
  for (const Lane& lane : schedule.lanes) {
    for (const Step& step : lane) {
      for (const Slot& slot : {step.into, step.left, step.right}) add(slot);
    }
  }
  return static_cast<int>(slots.size());
}

// Returns the number of lanes with a step of this kind.
int BusyLanes(const Schedule& schedule, StepKind kind) {
  return static_cast<int>(std::count_if(
      schedule.lanes.begin(), schedule.lanes.end(), [kind](const Lane& lane) {
        return std::any_of(lane.begin(), lane.end(), [kind](const Step& step) {
          return step.kind == kind;
        });
      }));
}

TEST(GatherTest, RootReceivesEveryBlockInItsPlaceAFewAtATime) {
  const auto plans = PlansOf("Gather", On(CollectiveType::kGather));
  const auto receives = StepsOf(plans[kRanks / 2], StepKind::kRecv);
  EXPECT_THAT(receives, SizeIs(kRanks - 1));
  for (const Step& step : receives) EXPECT_EQ(step.into, Data(step.peer));
  EXPECT_LE(BusyLanes(plans[kRanks / 2], StepKind::kRecv), 8);
}

TEST(GatherTest, OthersSendTheirInputOnce) {
  const auto plans = PlansOf("Gather", On(CollectiveType::kGather));
  EXPECT_THAT(plans[0].lanes, SizeIs(1));
  EXPECT_THAT(StepsOf(plans[0], StepKind::kSend), SizeIs(1));
}

TEST(ScatterTest, RootSendsEveryBlockFromTheInputAFewAtATime) {
  const auto plans = PlansOf("Scatter", On(CollectiveType::kScatter));
  const auto sends = StepsOf(plans[kRanks / 2], StepKind::kSend);
  EXPECT_THAT(sends, SizeIs(kRanks - 1));
  for (const Step& step : sends) EXPECT_EQ(step.left, Input(step.peer));
  EXPECT_LE(BusyLanes(plans[kRanks / 2], StepKind::kSend), 8);
}

TEST(ScatterTest, OthersReceiveOnce) {
  const auto plans = PlansOf("Scatter", On(CollectiveType::kScatter));
  EXPECT_THAT(plans[0].lanes, SizeIs(1));
  EXPECT_THAT(StepsOf(plans[0], StepKind::kRecv), SizeIs(1));
}

TEST(PairwiseAllToAllTest, EveryBlockIsSentOnceFromTheInput) {
  const auto plans = PlansOf("PairwiseAllToAll", On(CollectiveType::kAllToAll));
  for (const Schedule& plan : plans) {
    const auto sends = StepsOf(plan, StepKind::kSend);
    EXPECT_THAT(sends, SizeIs(kRanks - 1));
    for (const Step& step : sends) EXPECT_EQ(step.left, Input(step.peer));
    EXPECT_THAT(StepsOf(plan, StepKind::kCopy), SizeIs(1));  // The own block.
  }
}

TEST(PairwiseAllToAllTest, FewTransfersAreUnderWayAtOnce) {
  for (const Schedule& plan :
       PlansOf("PairwiseAllToAll", On(CollectiveType::kAllToAll))) {
    EXPECT_LE(BusyLanes(plan, StepKind::kSend), 4);
    EXPECT_LE(BusyLanes(plan, StepKind::kRecv), 4);
  }
}

TEST(PairwiseAllToAllTest, NoTwoRanksSendToTheSameOneInARound) {
  const auto plans = PlansOf("PairwiseAllToAll", On(CollectiveType::kAllToAll));
  for (int round = 1; round < kRanks; ++round) {
    std::set<int> targets;
    for (const Schedule& plan : plans) {
      for (const Step& step : StepsOf(plan, StepKind::kSend)) {
        if (step.tag == round) targets.insert(step.peer);
      }
    }
    EXPECT_THAT(targets, SizeIs(kRanks));
  }
}

TEST(PairwiseAllToAllTest, InPlaceSetsHalfOfTheBlocksAside) {
  for (int n : {2, 3, 8, 9}) {
    VerifyCase request = On(CollectiveType::kAllToAll, n);
    request.in_place = InPlace::kAll;
    for (const Schedule& plan : PlansOf("PairwiseAllToAll", request)) {
      int saved = 0;
      for (const Step& step : StepsOf(plan, StepKind::kCopy)) {
        saved += step.into.space == Space::kScratch;
      }
      EXPECT_EQ(saved, n / 2);
    }
  }
}

TEST(DirectReduceScatterTest, EveryBlockGoesToItsOwnerOnceFromTheInput) {
  for (const Schedule& plan :
       PlansOf("DirectReduceScatter", On(CollectiveType::kReduceScatter))) {
    const auto sends = StepsOf(plan, StepKind::kSend);
    EXPECT_THAT(sends, SizeIs(kRanks - 1));
    for (const Step& step : sends) EXPECT_EQ(step.left, Input(step.peer));
    const auto reductions = StepsOf(plan, StepKind::kReduce);
    ASSERT_THAT(reductions, SizeIs(1));
    EXPECT_THAT(SlotsRead(reductions[0]), SizeIs(kRanks));
  }
}

TEST(DirectReduceScatterTest, TakesOneRound) {
  EXPECT_EQ(TransfersInARow("DirectReduceScatter",
                            On(CollectiveType::kReduceScatter)),
            1);
}

TEST(DirectReduceScatterTest, AnOwnerSetsAsManyBlocksAsideAsOthersSend) {
  for (int n = 2; n <= 17; ++n) {
    for (const Schedule& plan : PlansOf(
             "DirectReduceScatter", On(CollectiveType::kReduceScatter, n))) {
      EXPECT_EQ(ScratchSlots(plan), n - 1);
    }
  }
}

TEST(PermuteTest, EveryRankSendsOnceFromTheInput) {
  VerifyCase request = On(CollectiveType::kPermute, 4);
  request.permutation = {1, 2, 0, 3};
  const auto plans = PlansOf("Permute", request);
  for (int rank = 0; rank < 3; ++rank) {
    const auto sends = StepsOf(plans[rank], StepKind::kSend);
    ASSERT_THAT(sends, SizeIs(1));
    EXPECT_EQ(sends[0].left, Input(0));
    EXPECT_EQ(sends[0].peer, request.permutation[rank]);
    EXPECT_THAT(StepsOf(plans[rank], StepKind::kCopy), IsEmpty());
  }
  EXPECT_THAT(StepsOf(plans[3], StepKind::kSend), IsEmpty());
  EXPECT_THAT(StepsOf(plans[3], StepKind::kCopy), SizeIs(1));
}

TEST(PermuteTest, TakesOneStep) {
  VerifyCase request = On(CollectiveType::kPermute, 4);
  request.permutation = {1, 2, 3, 0};
  for (InPlace in_place : {InPlace::kNone, InPlace::kAll}) {
    request.in_place = in_place;
    EXPECT_EQ(TransfersInARow("Permute", request), 1);
  }
}

TEST(ShuffleReduceTest, TakesOneRoundToTheOwnersAndLogarithmicallyManyBack) {
  for (const int n : {2, 3, 8, 17}) {
    const VerifyCase request = {.layout = GroupLayout::Uniform(1, n)};
    EXPECT_EQ(TransfersInARow("ShuffleReduce", request), 1 + CeilLog2(n));
    for (const Schedule& plan : PlansOf("ShuffleReduce", request)) {
      EXPECT_THAT(StepsOf(plan, StepKind::kSend), SizeIs(2 * (n - 1)));
      EXPECT_THAT(StepsOf(plan, StepKind::kCopy), IsEmpty());
    }
  }
}

TEST(ShuffleReduceTest, AnOwnerSetsAsManyChunksAsideAsOthersSend) {
  for (int n = 2; n <= 17; ++n) {
    VerifyCase request = {.layout = GroupLayout::Uniform(1, n)};
    for (const Schedule& plan : PlansOf("ShuffleReduce", request)) {
      EXPECT_EQ(ScratchSlots(plan), n - 1);
    }
    request.rank_list = {0};
    const auto plans = PlansOf("ShuffleReduce", request);
    EXPECT_EQ(ScratchSlots(plans[0]), n - 1);
    EXPECT_EQ(ScratchSlots(plans[1]), 0);
  }
}

TEST(ShuffleReduceTest, ListedOwnersReduceAPieceEach) {
  const VerifyCase request = {.layout = GroupLayout::Uniform(1, 5),
                              .rank_list = {3, 1}};
  EXPECT_EQ(TransfersInARow("ShuffleReduce", request), 2);
  const auto plans = PlansOf("ShuffleReduce", request);
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(plans[rank].num_chunks, 2);
    const bool is_owner = rank == 3 || rank == 1;
    const auto reductions = StepsOf(plans[rank], StepKind::kReduce);
    EXPECT_THAT(reductions, SizeIs(is_owner ? 1 : 0));
    for (const Step& step : reductions) {
      EXPECT_EQ(step.into.chunk, rank == 3 ? 0 : 1);
    }
    EXPECT_EQ(OutputOf("ShuffleReduce", request, rank, 1),
              "f(0.1+1.1+2.1+3.1+4.1)");
  }
}

TEST(ShuffleReduceTest, ReducesAllAtOnceInRankOrder) {
  const VerifyCase request = {.layout = GroupLayout::Uniform(1, 4)};
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(OutputOf("ShuffleReduce", request, rank, 2),
              "f(0.2+1.2+2.2+3.2)");
  }
}

}  // namespace ring_test
}  // namespace tutti
