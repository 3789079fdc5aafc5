#include "implementations/cost.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

// A message takes 1 + a second per byte within a process, and between
// processes 100 + 10 per byte.
constexpr CostModel kModel = {
    .within = {.latency_seconds = 1, .bytes_per_second = 1},
    .between = {.latency_seconds = 100, .bytes_per_second = 0.1}};

CostQuery Query(const GroupLayout& layout, bool one_process = false) {
  return {.layout = layout,
          .bytes = layout.size(),
          .model = kModel,
          .one_process = one_process};
}

TEST(CostTest, OneTaskIsOneProcessAndMoreAreIfTheQuerySaysSo) {
  const GroupLayout one = GroupLayout::Uniform(1, 4);
  const GroupLayout two = GroupLayout::Uniform(2, 2);
  EXPECT_FALSE(SpansProcesses(Query(one)));
  EXPECT_TRUE(SpansProcesses(Query(two)));
  EXPECT_FALSE(SpansProcesses(Query(two, /*one_process=*/true)));
  EXPECT_EQ(RingSeconds(Query(two, /*one_process=*/true)),
            RingSeconds(Query(one)));
}

TEST(CostTest, TasksOfDifferentSizes) {
  const auto layout = *GroupLayout::Create({0, 0, 1, 0, 2, 2});
  EXPECT_EQ(LargestTask(layout), 3);
  EXPECT_EQ(SmallestTask(layout), 1);
}

TEST(CostTest, CountsThoseWhoLeaveOneProcess) {
  const GroupLayout layout = GroupLayout::Uniform(2, 4);
  const auto leaving = [](const CostQuery& query, int distance) {
    return NumLeaving(query, [&](int rank) {
      return (rank + distance) % query.layout.size();
    });
  };
  EXPECT_EQ(leaving(Query(layout), 0), 0);
  EXPECT_EQ(leaving(Query(layout), 1), 1);
  EXPECT_EQ(leaving(Query(layout), 3), 3);
  EXPECT_EQ(leaving(Query(layout, /*one_process=*/true), 3), 0);
}

TEST(CostTest, EveryRoundOfARingWaitsForTheLinksBetweenProcesses) {
  EXPECT_EQ(RingSeconds(Query(GroupLayout::Uniform(1, 8))), 7 * (1 + 1));
  EXPECT_EQ(RingSeconds(Query(GroupLayout::Uniform(2, 4))), 7 * (100 + 10));
}

TEST(CostTest, MembersOfAProcessShareTheWayOut) {
  Traffic traffic;
  traffic.Add(/*num_leaving=*/3, /*messages=*/2, /*blocks=*/2);
  EXPECT_EQ(traffic.Seconds(kModel, /*block_bytes=*/1), 2 * 100 + 3 * 2 * 10);
  EXPECT_EQ(ToAllSeconds(Query(GroupLayout::Uniform(2, 4))),
            3 * (1 + 1) + 4 * 100 + 4 * 4 * 10);
  EXPECT_EQ(FromRootSeconds(Query(GroupLayout::Uniform(2, 4))),
            3 * (1 + 1) + 4 * 100 + 4 * 10);
}

TEST(CostTest, TheSameSeveralTimesOrByMembersTogether) {
  Traffic traffic;
  traffic.Add(/*num_leaving=*/0, /*messages=*/1, /*blocks=*/1);
  traffic.Add(/*num_leaving=*/1, /*messages=*/1, /*blocks=*/1);
  EXPECT_EQ(traffic.Times(3).Seconds(kModel, 1), 3 * (1 + 1 + 100 + 10));
  EXPECT_EQ(traffic.ByMembers(3).Seconds(kModel, 1), 1 + 1 + 100 + 3 * 10);
  traffic.Add(traffic);
  EXPECT_EQ(traffic.Seconds(kModel, 1), 2 * (1 + 1 + 100 + 10));
}

TEST(CostTest, PiecesAreOnTheirWayOnBothKindsOfLinksAtOnce) {
  Traffic traffic;
  traffic.Add(/*num_leaving=*/0, /*messages=*/1, /*blocks=*/8);
  traffic.Add(/*num_leaving=*/1, /*messages=*/1, /*blocks=*/1);
  EXPECT_EQ(traffic.SecondsInPieces(kModel, 1, /*num_pieces=*/4),
            101 + 10 + 8 / 4);
}

}  // namespace
}  // namespace tutti
