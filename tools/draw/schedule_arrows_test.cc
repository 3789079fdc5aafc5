#include "tools/draw/schedule_arrows.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti {
namespace schedule_arrows_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Transfer {
  int from;
  int to;
  int chunk;
};

// Places each transfer on a separate lane, with the sends in this order.
GroupPlan PlanOf(int num_ranks, const std::vector<Transfer>& transfers) {
  constexpr int kNumChunks = 16;
  std::vector<Schedule> schedules(num_ranks, {.num_chunks = kNumChunks});
  for (const Transfer& transfer : transfers) {
    const int tag = transfer.chunk;
    schedules[transfer.from].lanes.push_back({{.kind = StepKind::kSend,
                                               .left = Input(transfer.chunk),
                                               .peer = transfer.to,
                                               .tag = tag}});
    schedules[transfer.to].lanes.push_back({{.kind = StepKind::kRecv,
                                             .into = Data(transfer.chunk),
                                             .peer = transfer.from,
                                             .tag = tag}});
  }
  return *GroupPlan::Create({.num_ranks = num_ranks,
                             .num_chunks = kNumChunks,
                             .in_place = std::vector<bool>(num_ranks)},
                            schedules);
}

// "depth.line from-to: chunks" for each arrow.
std::vector<std::string> Shown(const GroupPlan& plan,
                               const std::vector<int>& depths) {
  std::vector<std::string> texts;
  for (const Arrow& arrow : ArrowsOf(plan, depths)) {
    texts.push_back(absl::StrCat(arrow.depth, ".", arrow.line, " ", arrow.from,
                                 "-", arrow.to, ": ", ChunksOf(plan, arrow)));
  }
  return texts;
}

std::vector<std::string> ShownAtOnce(const GroupPlan& plan) {
  return Shown(plan, std::vector<int>(plan.num_steps(), 1));
}

TEST(ScheduleArrowsTest, NothingSentHasNoArrows) {
  EXPECT_THAT(ShownAtOnce(PlanOf(3, {})), IsEmpty());
}

TEST(ScheduleArrowsTest, NeighboursShareALine) {
  EXPECT_THAT(ShownAtOnce(PlanOf(4, {{2, 3, 5}, {0, 1, 3}, {1, 2, 4}})),
              ElementsAre("1.0 0-1: 3", "1.0 1-2: 4", "1.0 2-3: 5"));
}

TEST(ScheduleArrowsTest, WhatOverlapsHasLinesOfItsOwn) {
  EXPECT_THAT(
      ShownAtOnce(PlanOf(3, {{0, 1, 0}, {1, 2, 1}, {2, 0, 2}, {1, 0, 3}})),
      ElementsAre("1.0 0-1: 0", "1.0 1-2: 1", "1.1 1-0: 3", "1.2 2-0: 2"));
}

TEST(ScheduleArrowsTest, AllThatGoesTheSameWayIsOneArrow) {
  EXPECT_THAT(ShownAtOnce(PlanOf(
                  2, {{0, 1, 7}, {0, 1, 0}, {0, 1, 2}, {0, 1, 1}, {0, 1, 9}})),
              ElementsAre("1.0 0-1: 0-2,7,9"));
}

TEST(ScheduleArrowsTest, DepthsAreApart) {
  const GroupPlan plan = PlanOf(2, {{0, 1, 0}, {0, 1, 1}});
  // Both sends of rank 0 come first, then both receives of rank 1.
  EXPECT_THAT(Shown(plan, {2, 1, 2, 1}),
              ElementsAre("1.0 0-1: 1", "2.0 0-1: 0"));
}

TEST(ScheduleArrowsTest, AllToAllNeedsNoMoreLinesThanCrossTheMiddle) {
  constexpr int kNumRanks = 6;
  std::vector<Transfer> transfers;
  for (int from = 0; from < kNumRanks; ++from) {
    for (int to = 0; to < kNumRanks; ++to) {
      if (from != to) transfers.push_back({from, to, 0});
    }
  }
  const GroupPlan plan = PlanOf(kNumRanks, transfers);
  const auto arrows = ArrowsOf(plan, std::vector<int>(plan.num_steps(), 1));
  ASSERT_EQ(arrows.size(), transfers.size());
  EXPECT_EQ(arrows.back().line, 2 * 3 * 3 - 1);
}

}  // namespace schedule_arrows_test
}  // namespace tutti
