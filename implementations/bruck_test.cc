#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "implementations/parts/binomial_tree.h"
#include "implementations/plan_testing.h"

namespace tutti {
namespace bruck_test {

using testing::AnyOf;
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

VerifyCase AllToAll(int num_ranks, InPlace in_place = InPlace::kNone) {
  return {.layout = GroupLayout::Uniform(1, num_ranks),
          .type = CollectiveType::kAllToAll,
          .in_place = in_place};
}

// Returns the number of copies of the input to scratch memory.
int SetAside(const Schedule& plan) {
  const auto copies = StepsOf(plan, StepKind::kCopy);
  return static_cast<int>(std::count_if(
      copies.begin(), copies.end(),
      [](const Step& step) { return step.into.space == Space::kScratch; }));
}

TEST(BruckAllToAllTest, TakesTheLogarithmOfTheRanks) {
  for (int n = 1; n <= 65; ++n) {
    EXPECT_EQ(TransfersInARow("BruckAllToAll", AllToAll(n)),
              std::bit_width(unsigned(n)) - 1);
    EXPECT_LE(TransfersInARow("BruckAllToAll", AllToAll(n, InPlace::kAll)),
              CeilLog2(n));
  }
}

TEST(BruckAllToAllTest, ABlockIsSentOncePerBitOfItsDistance) {
  for (int n = 1; n <= 65; ++n) {
    int bits = 0;
    for (unsigned distance = 1; distance < unsigned(n); ++distance) {
      bits += std::popcount(distance);
    }
    for (const Schedule& plan : PlansOf("BruckAllToAll", AllToAll(n))) {
      EXPECT_THAT(StepsOf(plan, StepKind::kSend), SizeIs(bits));
      EXPECT_THAT(StepsOf(plan, StepKind::kRecv), SizeIs(bits));
    }
  }
}

TEST(BruckAllToAllTest, SendsToRanksThatArePowersOfTwoFurtherOn) {
  const auto plans = PlansOf("BruckAllToAll", AllToAll(11));
  for (int rank = 0; rank < 11; ++rank) {
    for (const Step& send : StepsOf(plans[rank], StepKind::kSend)) {
      EXPECT_THAT((send.peer - rank + 11) % 11, AnyOf(1, 2, 4, 8));
    }
  }
}

TEST(BruckAllToAllTest, FirstSendsFromTheInputAndLastReceivesIntoTheOutput) {
  constexpr int kRanks = 13;
  for (const Schedule& plan : PlansOf("BruckAllToAll", AllToAll(kRanks))) {
    EXPECT_THAT(StepsOf(plan, StepKind::kCopy), SizeIs(1));  // The own block.
    std::set<int> sent;
    for (const Step& send : StepsOf(plan, StepKind::kSend)) {
      if (send.left.space == Space::kInput) sent.insert(send.left.chunk);
    }
    EXPECT_THAT(sent, SizeIs(kRanks - 1));
    std::set<int> received;
    for (const Step& receive : StepsOf(plan, StepKind::kRecv)) {
      if (receive.into.space == Space::kData) {
        received.insert(receive.into.chunk);
      }
    }
    EXPECT_THAT(received, SizeIs(kRanks - 1));
  }
}

TEST(BruckAllToAllTest, ABlockBetweenItsHopsHasAtMostTwoSlots) {
  for (int n = 1; n <= 65; ++n) {
    for (const InPlace in_place : {InPlace::kNone, InPlace::kAll}) {
      for (const Schedule& plan :
           PlansOf("BruckAllToAll", AllToAll(n, in_place))) {
        std::set<std::pair<int, int>> slots;
        for (const Step& receive : StepsOf(plan, StepKind::kRecv)) {
          if (receive.into.space != Space::kScratch) continue;
          slots.emplace(receive.into.chunk, receive.into.bank);
          EXPECT_LE(receive.into.bank, 1);
        }
        EXPECT_LT(slots.size(), 2 * n);
      }
    }
  }
}

TEST(BruckAllToAllTest, InPlaceSetsTheLogarithmOfTheBlocksAside) {
  for (int n = 1; n <= 65; ++n) {
    for (const Schedule& plan :
         PlansOf("BruckAllToAll", AllToAll(n, InPlace::kAll))) {
      EXPECT_EQ(SetAside(plan), std::bit_width(unsigned(n)) - 1);
    }
  }
}

}  // namespace bruck_test
}  // namespace tutti
