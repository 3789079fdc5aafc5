#include "schedule/simulate/simulator.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace simulator_test {

using ::testing::DoubleNear;
using ::testing::HasSubstr;

// Outline of given rounds. Transfers and work of a round are in the order of
// ranks.
class GivenOutline : public Outline {
 public:
  GivenOutline(int num_ranks, std::vector<OutlineRound> rounds, int period = 0)
      : Outline({.num_ranks = num_ranks,
                 .num_rounds = static_cast<int>(rounds.size()),
                 .period = period == 0 ? num_ranks : period}),
        rounds_(std::move(rounds)) {}

  void Append(int round, int first, int end,
              OutlineRound* into) const override {
    for (const auto& transfer : rounds_[round].transfers) {
      if (first <= transfer.from && transfer.from < end) {
        into->transfers.push_back(transfer);
      }
    }
    for (const auto& work : rounds_[round].work) {
      if (first <= work.rank && work.rank < end) into->work.push_back(work);
    }
  }
  int64_t NumResults(int, int) const override { return 0; }

 private:
  const std::vector<OutlineRound> rounds_;
};

// Times are microseconds. A chunk of 1000 bytes takes 1 within tasks, 10
// between tasks, 2 to reduce and 3 to copy.
ClusterModel Machine() {
  return {.links = {{"within", {5e-6, 1e9}, 1}, {"between", {50e-6, 1e8}}},
          .reduced_bytes_per_second = 5e8,
          .copied_bytes_per_second = 1e9 / 3};
}

double MicrosecondsOf(const Outline& outline, const GroupLayout& layout,
                      const ClusterModel& cluster = Machine()) {
  const auto result = Simulate(outline, layout, cluster, 1000);
  EXPECT_THAT(result, IsOk());
  return result->seconds * 1e6;
}

TEST(SimulatorTest, ATransferTakesItsLatencyAndItsBytes) {
  const GivenOutline two(2, {{}, {.transfers = {{0, 1, 4}}}});
  EXPECT_THAT(MicrosecondsOf(two, GroupLayout::Uniform(1, 2)),
              DoubleNear(5 + 4, 1e-9));
  EXPECT_THAT(MicrosecondsOf(two, GroupLayout::Uniform(2, 1)),
              DoubleNear(50 + 40, 1e-9));
}

TEST(SimulatorTest, EachMessageOccupiesTheLink) {
  ClusterModel cluster = Machine();
  cluster.seconds_per_message = 2e-6;
  const GivenOutline two(2, {{}, {.transfers = {{0, 1, 4}}}});
  EXPECT_THAT(MicrosecondsOf(two, GroupLayout::Uniform(1, 2), cluster),
              DoubleNear(5 + 4 * (1 + 2), 1e-9));
}

TEST(SimulatorTest, WorkFollowsTheTransfersOfItsRound) {
  const GivenOutline two(2, {{.work = {{0, 0, 1}}},
                             {.transfers = {{0, 1, 1}}, .work = {{1, 3, 0}}}});
  EXPECT_THAT(MicrosecondsOf(two, GroupLayout::Uniform(1, 2)),
              DoubleNear(3 + 5 + 1 + 3 * 2, 1e-9));
}

TEST(SimulatorTest, ATransferWaitsForBothRanks) {
  // Rank 1 begins late.
  const GivenOutline three(3, {{.work = {{1, 10, 0}}},
                               {.transfers = {{0, 1, 1}}},
                               {.transfers = {{2, 0, 1}}}});
  EXPECT_THAT(MicrosecondsOf(three, GroupLayout::Uniform(1, 3)),
              DoubleNear(20 + 6 + 6, 1e-9));
}

TEST(SimulatorTest, WhatOneRankSendsInARoundSharesItsLink) {
  const GivenOutline three(3, {{}, {.transfers = {{0, 1, 1}, {0, 2, 1}}}});
  EXPECT_THAT(MicrosecondsOf(three, GroupLayout::Uniform(1, 3)),
              DoubleNear(5 + 2, 1e-9));
  const GivenOutline both_ways(2, {{}, {.transfers = {{0, 1, 1}, {1, 0, 1}}}});
  EXPECT_THAT(MicrosecondsOf(both_ways, GroupLayout::Uniform(1, 2)),
              DoubleNear(5 + 1, 1e-9));
}

TEST(SimulatorTest, RanksOfATaskShareTheLinkOutOfIt) {
  const GivenOutline four(4, {{}, {.transfers = {{0, 2, 1}, {1, 3, 1}}}});
  EXPECT_THAT(MicrosecondsOf(four, GroupLayout::Uniform(2, 2)),
              DoubleNear(50 + 20, 1e-9));
  EXPECT_THAT(MicrosecondsOf(four, GroupLayout::Uniform(1, 4)),
              DoubleNear(5 + 1, 1e-9));
}

TEST(SimulatorTest, LinksAreOfTheFirstClassThatJoinsTheRanks) {
  // 8 tasks of one rank, in hosts of 2 tasks and racks of 4.
  ClusterModel cluster = {.links = {{"a", {1e-6, 1e9}, 1},
                                    {"b", {10e-6, 1e9}, 2},
                                    {"c", {100e-6, 1e9}, 4},
                                    {"d", {1000e-6, 1e9}}}};
  const auto latency = [&](int to) {
    const GivenOutline one(8, {{}, {.transfers = {{0, to, 1}}}});
    return MicrosecondsOf(one, GroupLayout::Uniform(8, 1), cluster) - 1;
  };
  EXPECT_THAT(latency(1), DoubleNear(10, 1e-9));
  EXPECT_THAT(latency(2), DoubleNear(100, 1e-9));
  EXPECT_THAT(latency(7), DoubleNear(1000, 1e-9));
  // Tasks of a rack share one link to other racks.
  const GivenOutline two(8, {{}, {.transfers = {{0, 4, 1}, {3, 7, 1}}}});
  EXPECT_THAT(MicrosecondsOf(two, GroupLayout::Uniform(8, 1), cluster),
              DoubleNear(1000 + 2, 1e-9));
}

TEST(SimulatorTest, CountsWhatPassesEachClass) {
  const GivenOutline three(
      3, {{}, {.transfers = {{0, 1, 2}, {1, 2, 3}, {2, 0, 4}}}});
  const auto result =
      Simulate(three, *GroupLayout::Create({0, 0, 1}), Machine(), 1000);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->links[0].messages, 2);
  EXPECT_EQ(result->links[1].messages, 7);
  EXPECT_EQ(result->links[1].bytes, 7000);
}

TEST(SimulatorTest, RefusesWhatDoesNotFitTogether) {
  const GivenOutline two(2, {{}});
  const auto refused = [](const absl::StatusOr<Simulation>& result) {
    return std::string(result.status().message());
  };
  EXPECT_THAT(refused(Simulate(two, GroupLayout::Uniform(3, 1), Machine(), 1)),
              HasSubstr("2 ranks on a layout 3x1, which has 3"));
  EXPECT_THAT(refused(Simulate(two, GroupLayout::Uniform(1, 2), {}, 1)),
              HasSubstr("links is empty"));
}

// Refuses infinite times even where nothing takes that time: 0 times infinity
// is NaN.
TEST(SimulatorTest, RefusesTimesThatDoNotAddUp) {
  const GivenOutline two(2, {{.transfers = {{0, 1, 1}}}});
  const auto expect_refused = [&](const ClusterModel& cluster,
                                  const std::string& what) {
    EXPECT_THAT(Simulate(two, GroupLayout::Uniform(1, 2), cluster, 1000),
                StatusIs(absl::StatusCode::kOutOfRange, HasSubstr(what)));
  };
  ClusterModel cluster = Machine();
  cluster.reduced_bytes_per_second = 1e-300;
  expect_refused(cluster, "to reduce 1000 bytes would take ");
  cluster = Machine();
  cluster.copied_bytes_per_second = 1e-300;
  expect_refused(cluster, "to copy 1000 bytes would take ");
  cluster = Machine();
  cluster.seconds_per_message = 1e300;
  expect_refused(cluster, "a message would take 1e+300 s");
  cluster = Machine();
  cluster.links[1].cost.bytes_per_second = 1e-300;
  expect_refused(cluster, "1000 bytes by links \"between\" would take ");
  cluster.links[1].cost = {.latency_seconds = 2e188, .bytes_per_second = 1};
  expect_refused(cluster, "by links \"between\" would take 2e+188 s");
}

// Rank r sends to the next rank. If `lies`, rank 5 sends more.
GivenOutline Rotating(bool lies) {
  OutlineRound round;
  for (int rank = 0; rank < 6; ++rank) {
    const int chunks = lies && rank == 5 ? 2 : 1;
    round.transfers.push_back({rank, (rank + 1) % 6, chunks});
  }
  return {6, {{}, round}, /*period=*/1};
}

TEST(SimulatorTest, OnePeriodStandsForAll) {
  for (const GroupLayout& layout :
       {GroupLayout::Uniform(1, 6), GroupLayout::Uniform(3, 2)}) {
    const auto result = Simulate(Rotating(false), layout, Machine(), 1000);
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->simulated_ranks,
              layout.size() == 6 && layout.num_tasks() == 1 ? 1 : 2);
    EXPECT_EQ(result->links[0].messages + result->links[1].messages, 6);
  }
}

TEST(SimulatorTest, APeriodThatIsNoneIsAnError) {
  const auto result =
      Simulate(Rotating(true), GroupLayout::Uniform(1, 6), Machine(), 1000);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr("in round 1, ranks from 5 on"));
}

// An outline that claims to be a ring.
class GivenRing : public Outline {
 public:
  GivenRing(int num_ranks, const std::vector<OutlineRound>& rounds)
      : Outline({.num_ranks = num_ranks,
                 .num_rounds = static_cast<int>(rounds.size()),
                 .period = num_ranks,
                 .is_ring = true}),
        rounds_(num_ranks, rounds) {}

  void Append(int round, int first, int end,
              OutlineRound* into) const override {
    rounds_.Append(round, first, end, into);
  }
  int64_t NumResults(int, int) const override { return 0; }

 private:
  const GivenOutline rounds_;
};

// Each rank of `order` sends to the next rank and then reduces.
OutlineRound RingRound(const std::vector<int>& order) {
  OutlineRound round;
  const auto size = static_cast<int>(order.size());
  for (int i = 0; i < size; ++i) {
    round.transfers.push_back({order[i], order[(i + 1) % size], 1});
    round.work.push_back({i, 1, 0});
  }
  return round;
}

TEST(SimulatorTest, OneTransferOfEachClassStandsForARing) {
  const OutlineRound round = RingRound({0, 1, 2, 3, 4, 5});
  const GivenRing ring(6, {{}, round, round});
  const auto some = Simulate(ring, GroupLayout::Uniform(2, 3), Machine(), 1000);
  ASSERT_THAT(some, IsOk());
  EXPECT_EQ(some->simulated_ranks, 4);
  EXPECT_THAT(some->seconds * 1e6, DoubleNear(2 * (50 + 10 + 2), 1e-9));
  EXPECT_EQ(some->links[0].messages, 2 * 4);
  EXPECT_EQ(some->links[1].messages, 2 * 2);
}

TEST(SimulatorTest, ARingThatSharesLinksIsSimulatedWhole) {
  const OutlineRound round = RingRound({0, 2, 1, 3});
  const GivenRing ring(4, {{}, round});
  const auto all = Simulate(ring, GroupLayout::Uniform(2, 2), Machine(), 1000);
  ASSERT_THAT(all, IsOk());
  EXPECT_EQ(all->simulated_ranks, 4);
  EXPECT_THAT(all->seconds * 1e6, DoubleNear(50 + 2 * 10 + 2, 1e-9));
}

TEST(SimulatorTest, ARingThatSharesProcessorsIsSimulatedWhole) {
  const OutlineRound round = RingRound({0, 1, 2, 3});
  const GivenRing ring(4, {{}, round});
  ClusterModel cluster = Machine();
  cluster.host = {.tasks = 0, .processors = 1, .inline_bytes = 0};
  const auto all = Simulate(ring, GroupLayout::Uniform(1, 4), cluster, 1000);
  ASSERT_THAT(all, IsOk());
  EXPECT_EQ(all->simulated_ranks, 4);
}

TEST(SimulatorTest, ARingThatIsNoneIsAnError) {
  OutlineRound round = RingRound({0, 1, 2, 3});
  round.work.pop_back();
  const GivenRing ring(4, {{}, RingRound({0, 1, 2, 3}), round});
  const auto result =
      Simulate(ring, GroupLayout::Uniform(1, 4), Machine(), 1000);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr("in round 2, ranks do not do what those of a ring do"));
}

TEST(SimulatorTest, TooMuchWorkIsRefused) {
  class Idle : public Outline {
   public:
    Idle(int num_rounds, int busy_ranks, int64_t most_transfers)
        : Outline({.num_ranks = 1 << 20,
                   .num_rounds = num_rounds,
                   .period = 1 << 20,
                   .busy_ranks = busy_ranks,
                   .most_transfers = most_transfers}) {}
    void Append(int, int, int, OutlineRound*) const override {}
    int64_t NumResults(int, int) const override { return 0; }
  };
  const auto simulate = [](int num_rounds, int busy_ranks,
                           int64_t most_transfers = 0) {
    return Simulate(Idle(num_rounds, busy_ranks, most_transfers),
                    GroupLayout::Uniform(1, 1 << 20), Machine(), 1);
  };
  EXPECT_THAT(simulate(1 << 10, 0), IsOk());
  EXPECT_EQ(simulate(1 << 11, 0).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(simulate(1 << 11, 1 << 19), IsOk());
  EXPECT_THAT(simulate(1 << 4, 0, 1 << 25), IsOk());
  EXPECT_THAT(simulate(1 << 4, 0, (1 << 25) + 1),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("1048576 ranks have 33554433; wanted are at "
                                 "most 33554432")));
}

// Machine() with hosts of `tasks` tasks and without inline work.
ClusterModel Hosts(int tasks, int processors) {
  ClusterModel cluster = Machine();
  cluster.host = {.tasks = tasks, .processors = processors, .inline_bytes = 0};
  return cluster;
}

TEST(SimulatorTest, RanksOfAHostShareItsProcessors) {
  // All four ranks exchange at once, 1 each way.
  const GivenOutline four(
      4, {{}, {.transfers = {{0, 1, 1}, {1, 0, 1}, {2, 3, 1}, {3, 2, 1}}}});
  const GroupLayout layout = GroupLayout::Uniform(1, 4);
  EXPECT_THAT(MicrosecondsOf(four, layout, Hosts(0, 1)),
              DoubleNear(5 + 4, 1e-9));
  EXPECT_THAT(MicrosecondsOf(four, layout, Hosts(0, 2)),
              DoubleNear(5 + 2, 1e-9));
  EXPECT_THAT(MicrosecondsOf(four, layout, Hosts(0, 8)),
              DoubleNear(5 + 1, 1e-9));
}

TEST(SimulatorTest, WorkOfAHostIsSharedOutToo) {
  const GivenOutline three(3, {{.work = {{0, 1, 0}, {1, 0, 2}, {2, 1, 1}}}});
  // Work of 2, 6 and 5: the last piece follows the first.
  EXPECT_THAT(MicrosecondsOf(three, GroupLayout::Uniform(1, 3), Hosts(0, 2)),
              DoubleNear(2 + 5, 1e-9));
}

TEST(SimulatorTest, WhatIsReceivedAndReducedTakesTheSlowerOfTheTwo) {
  // Three chunks to receive, 1 each; two of them to reduce, 2 each.
  const GivenOutline two(2,
                         {{}, {.transfers = {{0, 1, 3}}, .work = {{1, 2, 0}}}});
  ClusterModel cluster = Hosts(0, 1);
  const GroupLayout layout = GroupLayout::Uniform(1, 2);
  EXPECT_THAT(MicrosecondsOf(two, layout, cluster),
              DoubleNear(5 + 1 + 2 * 2, 1e-9));
  cluster.reduced_bytes_per_second = 1e12;
  EXPECT_THAT(MicrosecondsOf(two, layout, cluster), DoubleNear(5 + 3, 1e-9));
}

TEST(SimulatorTest, AMessageBetweenTasksOfAHostIsWorkOfBothEnds) {
  ClusterModel cluster = Hosts(2, 1);
  cluster.seconds_per_message = 3e-6;
  const GivenOutline two(2, {{}, {.transfers = {{0, 1, 2}}}});
  EXPECT_THAT(MicrosecondsOf(two, GroupLayout::Uniform(1, 2), cluster),
              DoubleNear(5 + 2 * (1 + 3), 1e-9));
  EXPECT_THAT(MicrosecondsOf(two, GroupLayout::Uniform(2, 1), cluster),
              DoubleNear(50 + 2 * (10 + 3 + 3), 1e-9));
  cluster.host.processors = 2;
  EXPECT_THAT(MicrosecondsOf(two, GroupLayout::Uniform(2, 1), cluster),
              DoubleNear(50 + 2 * (10 + 3), 1e-9));
}

TEST(SimulatorTest, LinksThatLeaveAHostAreNoWorkOfIt) {
  // 4 tasks in hosts of 2: each host has one inner message, and each task sends
  // or receives one outer message.
  const GivenOutline four(
      4, {{}, {.transfers = {{0, 1, 1}, {0, 2, 1}, {1, 3, 1}, {2, 3, 1}}}});
  const auto result =
      Simulate(four, GroupLayout::Uniform(4, 1), Hosts(2, 1), 1000);
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(result->seconds * 1e6, DoubleNear(50 + 10, 1e-9));
  EXPECT_THAT(result->processor_seconds * 1e6, DoubleNear(2 * 10, 1e-9));
}

TEST(SimulatorTest, SmallChunksOfATaskAreWorkOfOneThread) {
  const GivenOutline two(2, {{.work = {{0, 1, 0}, {1, 1, 0}}}});
  ClusterModel cluster = Hosts(0, 2);
  cluster.host.inline_bytes = 999;
  EXPECT_THAT(MicrosecondsOf(two, GroupLayout::Uniform(1, 2), cluster),
              DoubleNear(2, 1e-9));
  cluster.host.inline_bytes = 1000;
  EXPECT_THAT(MicrosecondsOf(two, GroupLayout::Uniform(1, 2), cluster),
              DoubleNear(4, 1e-9));
  EXPECT_THAT(MicrosecondsOf(two, GroupLayout::Uniform(2, 1), cluster),
              DoubleNear(2, 1e-9));
}

TEST(SimulatorTest, OnePeriodOfHostsStandsForAll) {
  const GroupLayout layout = GroupLayout::Uniform(6, 1);
  const auto one = Simulate(Rotating(false), layout, Hosts(2, 1), 1000);
  ASSERT_THAT(one, IsOk());
  EXPECT_EQ(one->simulated_ranks, 2);
  // The same ring on hosts that differ: the last host has two tasks.
  const auto all = Simulate(Rotating(false), layout, Hosts(4, 1), 1000);
  ASSERT_THAT(all, IsOk());
  EXPECT_EQ(all->simulated_ranks, 6);
  // Ranks 0 to 1, 2 to 3 and 4 to 5 are within a host.
  EXPECT_THAT(one->processor_seconds * 1e6, DoubleNear(3 * 10, 1e-9));
  EXPECT_THAT(all->processor_seconds * 1e6, DoubleNear(4 * 10, 1e-9));
}

TEST(SharedPeriodTest, HoldsWholeHosts) {
  EXPECT_EQ(SharedPeriod(1, GroupLayout::Uniform(1, 12), Hosts(1, 1)), 12);
  EXPECT_EQ(SharedPeriod(1, GroupLayout::Uniform(4, 3), Hosts(2, 1)), 6);
  EXPECT_EQ(SharedPeriod(1, GroupLayout::Uniform(4, 3), Hosts(0, 1)), 12);
  EXPECT_EQ(SharedPeriod(1, GroupLayout::Uniform(4, 3), Hosts(3, 1)), 12);
  EXPECT_EQ(SharedPeriod(1, GroupLayout::Uniform(4, 3), Hosts(2, 0)), 3);
  ClusterModel racks = Hosts(2, 1);
  racks.links.insert(racks.links.begin() + 1, LinkClass{"rack", {1, 1}, 3});
  EXPECT_EQ(SharedPeriod(1, GroupLayout::Uniform(12, 1), racks), 6);
}

TEST(SharedPeriodTest, IsThatOfLayoutAndClusterToo) {
  const ClusterModel machine = Machine();
  EXPECT_EQ(SharedPeriod(1, GroupLayout::Uniform(1, 12), machine), 1);
  EXPECT_EQ(SharedPeriod(1, GroupLayout::Uniform(4, 3), machine), 3);
  EXPECT_EQ(SharedPeriod(2, GroupLayout::Uniform(4, 3), machine), 6);
  EXPECT_EQ(SharedPeriod(12, GroupLayout::Uniform(4, 3), machine), 12);
  EXPECT_EQ(SharedPeriod(1, *GroupLayout::Create({0, 1, 0, 1}), machine), 4);
  EXPECT_EQ(SharedPeriod(1, *GroupLayout::Create({0, 0, 1}), machine), 3);
  ClusterModel hosts = machine;
  hosts.links.insert(hosts.links.begin() + 1, LinkClass{"host", {1, 1}, 2});
  EXPECT_EQ(SharedPeriod(1, GroupLayout::Uniform(4, 3), hosts), 6);
  EXPECT_EQ(SharedPeriod(1, GroupLayout::Uniform(5, 3), hosts), 15);
}

}  // namespace simulator_test
}  // namespace tutti
