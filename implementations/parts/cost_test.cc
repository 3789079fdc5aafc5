#include "implementations/parts/cost.h"

#include <gtest/gtest.h>

namespace tutti {
namespace cost_test {

// Times of a message: within a process 1, plus 1 per byte; between processes
// 100, plus 10 per byte, plus 30 for each further message at the same time.
constexpr CostModel kModel = {
    .within = {.latency_seconds = 1, .bytes_per_second = 1},
    .between = {.latency_seconds = 100, .bytes_per_second = 0.1},
    .between_gap_seconds = 30};

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
    return CrossingsOf(query,
                       [&](int rank) {
                         return (rank + distance) % query.layout.size();
                       })
        .leaving;
  };
  EXPECT_EQ(leaving(Query(layout), 0), 0);
  EXPECT_EQ(leaving(Query(layout), 1), 1);
  EXPECT_EQ(leaving(Query(layout), 3), 3);
  EXPECT_EQ(leaving(Query(layout, /*one_process=*/true), 3), 0);
}

TEST(CostTest, CountsThoseThatLeaveAndArriveAtOnce) {
  const GroupLayout layout = GroupLayout::Uniform(3, 2);
  const auto in_all = [&](auto peer_of) {
    return CrossingsOf(Query(layout), peer_of).in_all;
  };
  EXPECT_EQ(in_all([](int rank) { return rank; }), 0);
  EXPECT_EQ(in_all([](int rank) { return rank == 2 ? 0 : rank; }), 1);
  // Messages come from both other processes.
  EXPECT_EQ(in_all([](int rank) { return rank % 2 == 0 ? 0 : rank; }), 2);
  EXPECT_EQ(in_all([](int rank) { return (rank + 2) % 6; }), 4);
  EXPECT_EQ(OneWay(Query(layout)).in_all, 1);
  EXPECT_EQ(BothWays(Query(layout), 2).in_all, 4);
  EXPECT_EQ(BothWays(Query(layout, /*one_process=*/true), 2).in_all, 0);
}

TEST(CostTest, EveryRoundOfARingWaitsForTheLinksBetweenProcesses) {
  EXPECT_EQ(RingSeconds(Query(GroupLayout::Uniform(1, 8))), 7 * (1 + 1));
  EXPECT_EQ(RingSeconds(Query(GroupLayout::Uniform(2, 4))),
            7 * (100 + 30 + 10));
}

TEST(CostTest, MembersOfAProcessShareTheWayOut) {
  Traffic traffic;
  traffic.Add({.leaving = 3, .in_all = 5}, /*messages=*/2, /*blocks=*/2);
  EXPECT_EQ(traffic.Seconds(kModel, /*block_bytes=*/1),
            2 * (100 + 4 * 30) + 3 * 2 * 10);
  EXPECT_EQ(ToAllSeconds(Query(GroupLayout::Uniform(2, 4))),
            3 * (1 + 1) + 100 + 31 * 30 + 4 * 4 * 10);
  EXPECT_EQ(FromRootSeconds(Query(GroupLayout::Uniform(2, 4))),
            3 * (1 + 1) + 100 + 3 * 30 + 4 * 10);
}

TEST(CostTest, OfTheSameBytesAndRoundsFewerMessagesAtOnceAreCheaper) {
  Traffic one_member;
  one_member.Add({.leaving = 1, .in_all = 1}, /*messages=*/2, /*blocks=*/6);
  Traffic all_members;
  all_members.Add({.leaving = 3, .in_all = 3}, /*messages=*/2, /*blocks=*/2);
  EXPECT_EQ(all_members.Seconds(kModel, 1),
            one_member.Seconds(kModel, 1) + 2 * 2 * 30);
}

TEST(CostTest, MessagesAtOnceAreOneRound) {
  Traffic traffic;
  traffic.AddAtOnce({.leaving = 1, .in_all = 2}, /*messages=*/3, /*blocks=*/4);
  EXPECT_EQ(traffic.Seconds(kModel, 1), 100 + 5 * 30 + 4 * 10);
  traffic.AddAtOnce({.leaving = 1, .in_all = 2}, /*messages=*/0, /*blocks=*/0);
  EXPECT_EQ(traffic.Seconds(kModel, 1), 100 + 5 * 30 + 4 * 10);
  Traffic inside;  // The sender sends one after the other.
  inside.AddAtOnce({}, /*messages=*/3, /*blocks=*/4);
  EXPECT_EQ(inside.Seconds(kModel, 1), 3 + 4);
}

TEST(CostTest, WhatIsSetAsideIsReadOnceMore) {
  CostModel model = kModel;
  model.set_aside_bytes_per_second = 0.25;
  Traffic traffic;
  traffic.SetAside(/*within=*/5, /*between=*/3);
  EXPECT_EQ(traffic.Seconds(model, 1), 5 + 3 * 4);
  traffic.Add(traffic);
  EXPECT_EQ(traffic.Times(2).Seconds(model, 1), 4 * (5 + 3 * 4));
  EXPECT_EQ(traffic.ByMembers(3).Seconds(model, 1), 2 * (5 + 3 * 4));
}

TEST(CostTest, TheSameSeveralTimesOrByMembersTogether) {
  Traffic traffic;
  traffic.Add({}, /*messages=*/1, /*blocks=*/1);
  traffic.Add({.leaving = 1, .in_all = 2}, /*messages=*/1, /*blocks=*/1);
  EXPECT_EQ(traffic.Times(3).Seconds(kModel, 1), 3 * (1 + 1 + 100 + 30 + 10));
  EXPECT_EQ(traffic.ByMembers(3).Seconds(kModel, 1),
            1 + 1 + 100 + 5 * 30 + 3 * 10);
  traffic.Add(traffic);
  EXPECT_EQ(traffic.Seconds(kModel, 1), 2 * (1 + 1 + 100 + 30 + 10));
}

TEST(CostTest, PiecesAreOnTheirWayOnBothKindsOfLinksAtOnce) {
  Traffic traffic;
  traffic.Add({}, /*messages=*/1, /*blocks=*/8);
  traffic.Add({.leaving = 1, .in_all = 1}, /*messages=*/1, /*blocks=*/1);
  EXPECT_EQ(traffic.SecondsInPieces(kModel, 1, /*num_pieces=*/4),
            101 + 10 + 8 / 4);
}

// kModel with two shared processors. A message takes 7 seconds of a processor,
// and a byte 4 seconds.
CostModel SharedModel() {
  CostModel model = kModel;
  model.shared = {.num = 2,
                  .message = {.latency_seconds = 7, .bytes_per_second = 0.25}};
  return model;
}

// Expects the time up to the tie break.
void ExpectTakes(const Traffic& traffic, double seconds) {
  EXPECT_NEAR(traffic.Seconds(SharedModel(), 1), seconds, 1e-3 * seconds);
}

TEST(CostTest, AllMessagesTogetherWaitForSharedProcessors) {
  Traffic traffic;
  traffic.Add({.leaving = 1, .in_all = 2, .of_all_processes = 100},
              /*messages=*/1, /*blocks=*/3);
  EXPECT_EQ(traffic.Seconds(kModel, 1), 100 + 30 + 30);
  const double once = 100 * (7 + 3 * 4) / 2.0;
  ExpectTakes(traffic, once);
  ExpectTakes(traffic.Times(3), 3 * once);
  ExpectTakes(traffic.ByMembers(3), 3 * once);
  traffic.Add(traffic);
  ExpectTakes(traffic, 2 * once);
}

TEST(CostTest, FewMessagesTakeAsLongAsTheirWay) {
  Traffic traffic;
  traffic.Add({.leaving = 1, .in_all = 2, .of_all_processes = 2},
              /*messages=*/1, /*blocks=*/3);
  ExpectTakes(traffic, traffic.Seconds(kModel, 1));
}

TEST(CostTest, OfWhatTakesTheSameOfProcessorsTheShorterWayIsCheaper) {
  Traffic once, twice;
  once.Add({.leaving = 1, .in_all = 2, .of_all_processes = 100},
           /*messages=*/1, /*blocks=*/1);
  twice.Add({.leaving = 1, .in_all = 2, .of_all_processes = 50},
            /*messages=*/2, /*blocks=*/2);
  EXPECT_LT(once.Seconds(SharedModel(), 1), twice.Seconds(SharedModel(), 1));
}

TEST(CostTest, CountsThoseThatLeaveAnyProcess) {
  const GroupLayout layout = GroupLayout::Uniform(3, 2);
  const CostQuery query = Query(layout);
  EXPECT_EQ(OneWay(query).of_all_processes, 1);
  EXPECT_EQ(OneWay(query, 1.5).of_all_processes, 1.5);
  EXPECT_EQ(BothWays(query, 2).of_all_processes, 6);
  EXPECT_EQ(CrossingsOf(query,
                        [](int rank) { return rank == 5 ? 4 : (rank + 1) % 6; })
                .of_all_processes,
            2);
}

}  // namespace cost_test
}  // namespace tutti
