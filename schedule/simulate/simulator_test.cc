#include "schedule/simulate/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schedule/engine/schedule_run.h"
#include "schedule/simulate/cluster_model.h"
#include "schedule/simulate/host_work.h"
#include "schedule/simulate/lower_bound.h"
#include "schedule/simulate/outline_testing.h"
#include "schedule/simulate/planned_outline.h"
#include "schedule/simulate/ports.h"
#include "schedule/simulate/ring_sample.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/params.h"
#include "tutti/schedule.h"

namespace tutti {
namespace simulator_test {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

GroupLayout Uniform(int tasks, int devices) {
  return GroupLayout::Uniform(tasks, devices);
}

// --- cluster model -----------------------------------------------------------

std::string WhyNot(const ClusterModel& cluster) {
  return std::string(CheckCluster(cluster).message());
}

TEST(ClusterModelTest, TheDefaultIsTheMachineOfTheCostModel) {
  const CostModel model = {.within = {1, 2}, .between = {3, 4}};
  const ClusterModel cluster = ClusterOf(model);
  ASSERT_EQ(cluster.links.size(), 2);
  EXPECT_EQ(cluster.links[0].cost.latency_seconds, 1);
  EXPECT_EQ(cluster.links[0].tasks, 1);
  EXPECT_EQ(cluster.links[1].cost.bytes_per_second, 4);
  EXPECT_EQ(cluster.links[1].tasks, 0);
  EXPECT_THAT(CheckCluster(ClusterOf()), IsOk());
}

TEST(ClusterModelTest, ClassesGoFromTheInsideToTheOutside) {
  const auto with = [](std::vector<int> tasks) {
    ClusterModel cluster;
    for (int one : tasks) cluster.links.push_back({"x", {1, 1}, one});
    return WhyNot(cluster);
  };
  EXPECT_EQ(with({0}), "");
  EXPECT_EQ(with({1, 4, 8, 0}), "");
  EXPECT_THAT(with({}), HasSubstr("links is empty"));
  EXPECT_THAT(with({1}), HasSubstr("links[0]: tasks is 1; wanted is 0"));
  EXPECT_THAT(with({2, 0}), HasSubstr("links[0]: tasks is 2; wanted is 1"));
  EXPECT_THAT(with({1, 4, 6, 0}),
              HasSubstr("links[2]: tasks is 6; wanted is a multiple of 4"));
  EXPECT_THAT(with({1, 1, 0}), HasSubstr("links[1]: tasks is 1"));
}

TEST(ClusterModelTest, TimesAndRatesAreChecked) {
  ClusterModel cluster = ClusterOf();
  cluster.links[1].cost.latency_seconds = -1;
  EXPECT_THAT(WhyNot(cluster), HasSubstr("links[1]: latency is -1"));
  cluster = ClusterOf();
  cluster.links[0].cost.bytes_per_second = 0;
  EXPECT_THAT(WhyNot(cluster), HasSubstr("links[0]: bandwidth is 0"));
  cluster = ClusterOf();
  cluster.seconds_per_message = std::numeric_limits<double>::infinity();
  EXPECT_THAT(WhyNot(cluster), HasSubstr("message overhead is inf"));
  cluster = ClusterOf();
  cluster.reduced_bytes_per_second = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(WhyNot(cluster), HasSubstr("reduction is nan"));
  cluster.reduced_bytes_per_second = std::numeric_limits<double>::infinity();
  EXPECT_THAT(CheckCluster(cluster), IsOk());
}

TEST(ClusterModelTest, AHostHasNoLessThanNothing) {
  const auto with = [](const Host& host) {
    ClusterModel cluster = ClusterOf();
    cluster.host = host;
    return WhyNot(cluster);
  };
  EXPECT_EQ(with({.tasks = 4, .processors = 2, .inline_bytes = 0}), "");
  EXPECT_THAT(with({.tasks = -1}), HasSubstr("host: tasks is -1; wanted is 0"));
  EXPECT_THAT(with({.processors = -2}), HasSubstr("host: processors is -2"));
  EXPECT_THAT(with({.inline_bytes = -3}), HasSubstr("inline bytes is -3"));
}

TEST(ClusterModelTest, TheLastHostMayHaveFewerTasks) {
  EXPECT_EQ(NumHosts({.tasks = 0, .processors = 1}, 7), 1);
  EXPECT_EQ(NumHosts({.tasks = 3, .processors = 1}, 6), 2);
  EXPECT_EQ(NumHosts({.tasks = 3, .processors = 1}, 7), 3);
}

TEST(ClusterModelTest, InlineIsWhatTheEngineDoesInline) {
  EXPECT_EQ(Host().inline_bytes, kInlineBytes);
}

// --- ports -------------------------------------------------------------------

TEST(PortsTest, WhatMayStartFirstPassesFirst) {
  Ports ports(/*num_classes=*/1, /*num_ports=*/2);
  ports.Add(0, 1, /*start=*/20, /*duration=*/5);
  ports.Add(0, 1, /*start=*/1, /*duration=*/3);
  ports.Add(0, 1, /*start=*/2, /*duration=*/4);
  EXPECT_EQ(ports.FreeAt(0, 1), 0);
  ports.Pass();
  EXPECT_EQ(ports.FreeAt(0, 1), 25);
}

TEST(PortsTest, WhatComesLaterPassesAfterWhatHasPassed) {
  Ports ports(1, 1);
  ports.Add(0, 0, 10, 5);
  ports.Pass();
  ports.Add(0, 0, 1, 2);
  ports.Add(0, 0, 0, 1);
  ports.Pass();
  EXPECT_EQ(ports.FreeAt(0, 0), 18);
  ports.Pass();
  EXPECT_EQ(ports.FreeAt(0, 0), 18);
}

TEST(PortsTest, PortsAndClassesDoNotWaitForEachOther) {
  Ports ports(/*num_classes=*/2, /*num_ports=*/3);
  for (const double start : {0, 1}) {
    for (const int port : {2, 0, 1}) {
      for (const int link : {1, 0}) ports.Add(link, port, start, 1 + link);
    }
  }
  ports.Pass();
  for (const int port : {0, 1, 2}) {
    EXPECT_EQ(ports.FreeAt(0, port), 2);
    EXPECT_EQ(ports.FreeAt(1, port), 4);
  }
}

// --- host work ---------------------------------------------------------------

TEST(HostWorkTest, PiecesAreSharedOutAmongTheProcessorsOfTheHost) {
  HostWork work({.processors = 2}, /*num_tasks=*/3, /*is_inline=*/false);
  for (int task : {0, 1, 2}) work.Add(task, /*ready=*/10, /*duration=*/5);
  EXPECT_THAT(work.Do(), ElementsAre(15, 15, 20));
  EXPECT_EQ(work.busy(), 15);
}

TEST(HostWorkTest, WhatIsReadyFirstIsDoneFirst) {
  HostWork work({.processors = 1}, 1, false);
  work.Add(0, 3, 10);
  work.Add(0, 1, 4);
  work.Add(0, 3, 1);
  EXPECT_THAT(work.Do(), ElementsAre(15, 5, 16));
}

TEST(HostWorkTest, HostsDoNotWaitForEachOther) {
  HostWork work({.tasks = 2, .processors = 1}, /*num_tasks=*/5, false);
  for (int task = 0; task < 5; ++task) work.Add(task, 0, 7);
  EXPECT_THAT(work.Do(), ElementsAre(7, 14, 7, 14, 7));
}

TEST(HostWorkTest, WorkFollowsWhatWasDoneBefore) {
  HostWork work({.processors = 2}, 1, false);
  work.Add(0, 0, 10);
  work.Add(0, 0, 4);
  EXPECT_THAT(work.Do(), ElementsAre(10, 4));
  work.Add(0, 1, 1);
  work.Add(0, 1, 6);
  EXPECT_THAT(work.Do(), ElementsAre(5, 11));
  EXPECT_THAT(work.Do(), ElementsAre());
}

// The third of the later pieces is ready at 2. If the first two each took a
// processor, it would wait until 11.
TEST(HostWorkTest, APieceThatWaitsForItsTaskLeavesTheProcessorToOthers) {
  HostWork work({.processors = 2}, /*num_tasks=*/2, /*is_inline=*/true);
  work.Add(0, 0, 1);
  work.Add(1, 0, 1);
  EXPECT_THAT(work.Do(), ElementsAre(1, 1));
  work.Add(0, 1, 10);
  work.Add(0, 1, 10);
  work.Add(1, 2, 3);
  EXPECT_THAT(work.Do(), ElementsAre(11, 21, 5));
}

// --- ring sample -------------------------------------------------------------

// Machine with links within tasks, pairs of tasks, and all tasks.
ClusterModel ThreeClasses() {
  return {.links = {{"within", {1e-6, 1e9}, 1},
                    {"pair", {2e-6, 1e9}, 2},
                    {"all", {3e-6, 1e9}}}};
}

std::vector<OutlineRound::Transfer> RingOf(const std::vector<int>& order) {
  std::vector<OutlineRound::Transfer> transfers;
  for (size_t i = 0; i < order.size(); ++i) {
    transfers.push_back({order[i], order[(i + 1) % order.size()], 1});
  }
  return transfers;
}

TEST(SampleRingTest, TakesOneTransferOfEachClass) {
  const GroupLayout layout = Uniform(4, 3);
  const ClusterModel cluster = ThreeClasses();
  const ClusterLinks links(layout, cluster, layout.size());
  const auto sample = SampleRing(RingOf({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}),
                                 links, /*num_classes=*/3);
  ASSERT_TRUE(sample.has_value());
  EXPECT_THAT(sample->senders, ElementsAre(0, 2, 5));
  EXPECT_THAT(sample->ranks, ElementsAre(0, 1, 2, 3, 5, 6));
  EXPECT_THAT(sample->times, ElementsAre(8, 2, 2));
}

TEST(SampleRingTest, AReceiverBeyondThePeriodIsTheOneThatStandsForIt) {
  const GroupLayout layout = Uniform(4, 3);
  const ClusterModel cluster = ClusterOf();
  const ClusterLinks links(layout, cluster, /*period=*/3);
  const auto sample = SampleRing({{0, 1, 1}, {1, 2, 1}, {2, 3, 1}}, links,
                                 /*num_classes=*/2);
  ASSERT_TRUE(sample.has_value());
  EXPECT_THAT(sample->ranks, ElementsAre(0, 1, 2));
  EXPECT_THAT(sample->times, ElementsAre(2, 1));
}

TEST(SampleRingTest, ThereIsNoneWhereTransfersShareALink) {
  const GroupLayout layout = Uniform(2, 2);
  const ClusterModel cluster = ThreeClasses();
  const ClusterLinks links(layout, cluster, layout.size());
  EXPECT_FALSE(
      SampleRing(RingOf({0, 2, 1, 3}), links, /*num_classes=*/3).has_value());
}

TEST(IsRoundOfRingTest, FindsWhatDiffers) {
  const OutlineRound ring = {.transfers = RingOf({0, 1, 2}),
                             .work = {{0, 1, 0}, {1, 1, 0}, {2, 1, 0}}};
  EXPECT_TRUE(IsRoundOfRing(1, ring, ring, 3));
  EXPECT_FALSE(IsRoundOfRing(0, ring, ring, 3)) << "has transfers";
  EXPECT_TRUE(IsRoundOfRing(0, {.work = ring.work}, ring, 3));
  OutlineRound other = ring;
  other.work.clear();
  EXPECT_TRUE(IsRoundOfRing(2, other, ring, 3));
  other.work = {{0, 1, 0}};
  EXPECT_FALSE(IsRoundOfRing(2, other, ring, 3)) << "works alone";
  other.work = {{0, 1, 0}, {1, 0, 1}, {2, 1, 0}};
  EXPECT_FALSE(IsRoundOfRing(2, other, ring, 3)) << "works differently";
  other = ring;
  for (auto& transfer : other.transfers) transfer.chunks = 2;
  EXPECT_TRUE(IsRoundOfRing(2, other, ring, 3));
  other.transfers[1].chunks = 3;
  EXPECT_FALSE(IsRoundOfRing(2, other, ring, 3)) << "sends more";
  other.transfers = {{0, 2, 1}, {1, 0, 1}, {2, 1, 1}};
  EXPECT_FALSE(IsRoundOfRing(2, other, ring, 3)) << "turns round";
  other.transfers = {{0, 1, 1}, {1, 2, 1}, {2, 1, 1}};
  EXPECT_FALSE(IsRoundOfRing(1, other, other, 3)) << "has two senders";
}

// --- planned outline ---------------------------------------------------------

// Plan in which rank 0 sends two chunks to rank 1. Rank 1 adds both, one after
// the other, and sends its sum to rank 2.
Schedule Plan(const PlanRequest& request) {
  ScheduleBuilder builder(/*num_chunks=*/2);
  for (int chunk : {0, 1}) {
    auto lane = builder.AddLane();
    if (request.rank == 0) lane.Send(1, chunk, Input(chunk));
    if (request.rank == 1) {
      lane.Recv(0, chunk, Scratch(chunk));
      lane.Reduce(Data(chunk), Scratch(chunk), Input(chunk));
      lane.Send(2, chunk, Data(chunk));
    }
    if (request.rank == 2) {
      lane.Recv(1, chunk, Data(chunk));
      lane.Copy(Scratch(chunk, 1), Data(chunk));
    }
  }
  return builder.Build();
}

using Transfer = OutlineRound::Transfer;
using Work = OutlineRound::Work;

// Outline of Plan() for 3 or more ranks, with chosen errors.
class PlanOutline : public Outline {
 public:
  PlanOutline(const Size& size, int64_t reduced, int64_t num_results = 2)
      : Outline(size), reduced_(reduced), num_results_(num_results) {}
  void Append(int round, int first, int end,
              OutlineRound* into) const override {
    const int rank = round - 1;
    if (round > 0 && first <= rank && rank < end) {
      into->transfers.push_back({rank, rank + 1, 2});
    }
    if (round == 0 || first > round || round >= end) return;
    into->work.push_back(
        {round, round == 1 ? reduced_ : 0, round == 2 ? 2 : 0});
  }
  int64_t NumResults(int round, int rank) const override {
    return round > 0 && round == rank ? num_results_ : 0;
  }

 private:
  const int64_t reduced_;
  const int64_t num_results_;
};

constexpr Outline::Size kSize = {.num_ranks = 3,
                                 .num_chunks = 2,
                                 .num_rounds = 3,
                                 .scratch_chunks = 2,
                                 .period = 3,
                                 .most_transfers = 1};

using MadeOutline = absl::StatusOr<std::unique_ptr<const Outline>>;

template <int64_t reduced, int64_t num_results>
MadeOutline Make(const PlanRequest& /*request*/) {
  return std::make_unique<PlanOutline>(kSize, reduced, num_results);
}
constexpr auto Right = Make<2, 2>;

// Makes the right outline but for one field of its size.
template <auto field, int value>
MadeOutline MakeWith(const PlanRequest& /*request*/) {
  Outline::Size size = kSize;
  size.*field = value;
  return std::make_unique<PlanOutline>(size, 2);
}
MadeOutline None(const PlanRequest& /*request*/) {
  return absl::UnimplementedError("it is a test");
}

Algorithm With(MadeOutline (*outline)(const PlanRequest&)) {
  return {.traits = {.collectives = {CollectiveType::kAllReduce}},
          .plan = Plan,
          .outline = outline};
}

VerifyCase ThreeRanks() { return {.layout = Uniform(1, 3)}; }

TEST(PlannedOutlineTest, HasTheRoundsOfThePlans) {
  const auto outline = PlannedOutline(With(nullptr), ThreeRanks(), 100).value();
  EXPECT_EQ(outline->size(), kSize);
  OutlineRound round;
  outline->Append(0, 0, 3, &round);
  EXPECT_THAT(round.transfers, IsEmpty());
  outline->Append(1, 0, 3, &round);
  EXPECT_THAT(round.transfers, ElementsAre(Transfer{0, 1, 2}));
  EXPECT_THAT(round.work, ElementsAre(Work{1, 2, 0}));
  round.Clear();
  outline->Append(2, 0, 3, &round);
  EXPECT_THAT(round.transfers, ElementsAre(Transfer{1, 2, 2}));
  EXPECT_THAT(round.work, ElementsAre(Work{2, 0, 2}));
}

TEST(PlannedOutlineTest, ResultsAreWhatIsLastWrittenToTheOutput) {
  const auto outline = PlannedOutline(With(nullptr), ThreeRanks(), 100).value();
  std::vector<int64_t> by_round_and_rank;
  for (const int round : {0, 1, 2}) {
    for (const int rank : {0, 1, 2}) {
      by_round_and_rank.push_back(outline->NumResults(round, rank));
    }
  }
  EXPECT_THAT(by_round_and_rank, ElementsAre(0, 0, 0, 0, 2, 0, 0, 0, 2));
}

TEST(PlannedOutlineTest, EachOperandAfterTheFirstIsReducedAndAWaitIsNoWork) {
  const Algorithm algorithm = {
      .traits = {.collectives = {CollectiveType::kAllReduce}},
      .plan = [](const PlanRequest& request) {
        ScheduleBuilder builder(/*num_chunks=*/1);
        if (request.rank > 0) {
          builder.AddLane().Send(0, /*tag=*/0, Input(0));
          return builder.Build();
        }
        auto lane = builder.AddLane();
        lane.Wait(builder.AddLane().Recv(1, /*tag=*/0, Scratch(0, 1)));
        lane.Wait(builder.AddLane().Recv(2, /*tag=*/0, Scratch(0, 2)));
        lane.ReduceMany(Data(0), {Input(0), Scratch(0, 1), Scratch(0, 2)});
        return builder.Build();
      }};
  const auto outline = PlannedOutline(algorithm, ThreeRanks(), 100).value();
  OutlineRound round;
  outline->Append(1, 0, 3, &round);
  EXPECT_THAT(round.work, ElementsAre(Work{0, 2, 0}));
}

TEST(PlannedOutlineTest, ARangeIsOneMessage) {
  const Algorithm algorithm = {
      .traits = {.collectives = {CollectiveType::kAllReduce}},
      .plan = [](const PlanRequest& request) {
        ScheduleBuilder builder(/*num_chunks=*/4);
        auto lane = builder.AddLane();
        if (request.rank == 0) {
          lane.Send(1, /*tag=*/0, Input(1, 3));
          lane.Send(1, /*tag=*/1, Input(0));
        } else if (request.rank == 1) {
          lane.Recv(0, /*tag=*/0, Scratch(1, 0, 3));
          lane.Reduce(Data(1, 3), Scratch(1, 0, 3), Input(1, 3));
          builder.AddLane().Recv(0, /*tag=*/1, Scratch(0));
        }
        return builder.Build();
      }};
  const auto outline = PlannedOutline(algorithm, ThreeRanks(), 100).value();
  OutlineRound round;
  outline->Append(1, 0, 3, &round);
  EXPECT_THAT(round.transfers, ElementsAre(Transfer{0, 1, 3, /*messages=*/1}));
  EXPECT_THAT(round.work, ElementsAre(Work{1, 3, 0}));
  EXPECT_EQ(outline->size().scratch_chunks, 1);
  EXPECT_EQ(outline->NumResults(1, 1), 3);
}

TEST(PlannedOutlineTest, AppendsTheRanksAskedFor) {
  const auto outline = PlannedOutline(With(nullptr), ThreeRanks(), 100).value();
  OutlineRound round;
  outline->Append(1, 1, 3, &round);
  EXPECT_THAT(round.transfers, IsEmpty());
  EXPECT_THAT(round.work, ElementsAre(Work{1, 2, 0}));
  outline->Append(1, 2, 2, &round);
  EXPECT_THAT(round.work, ElementsAre(Work{1, 2, 0}));
}

TEST(PlannedOutlineTest, TooManyStepsAreRefused) {
  EXPECT_THAT(PlannedOutline(With(nullptr), ThreeRanks(), 12), IsOk());
  const auto outline = PlannedOutline(With(nullptr), ThreeRanks(), 11);
  EXPECT_THAT(
      outline,
      IsResourceExhausted("ranks 0 to 2 of 3 have 12 steps; wanted are at most "
                          "11 in all"));
}

TEST(OutlineOfTest, IsTheAlgorithmsOwnIfItHasOne) {
  EXPECT_THAT(OutlineOf(With(Right), ThreeRanks(), 0), IsOk());
  EXPECT_THAT(OutlineOf(With(nullptr), ThreeRanks(), 100), IsOk());
  VerifyCase barrier = ThreeRanks();
  barrier.type = CollectiveType::kBarrier;
  EXPECT_EQ(OutlineOf(With(Right), barrier, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(OutlineOfTest, WithoutOneItIsThatOfThePlansIfTheyAreNotTooLarge) {
  EXPECT_THAT(OutlineOf(With(None), ThreeRanks(), 12), IsOk());
  EXPECT_THAT(OutlineOf(With(None), ThreeRanks(), 11).status(),
              IsResourceExhausted("wanted are at most 11 in all, for there is "
                                  "no outline: it is a test"));
}

TEST(CheckOutlineTest, FindsWhatDiffersFromThePlans) {
  using Size = Outline::Size;
  const auto check = [](auto outline) {
    return std::string(CheckOutline(With(outline), ThreeRanks()).message());
  };
  EXPECT_EQ(check(Right), "");
  EXPECT_THAT(check(Make<3, 2>), HasSubstr("differs in round 1"));
  EXPECT_THAT(check(Make<2, 1>), HasSubstr("other results of rank 1"));
  EXPECT_THAT(check(MakeWith<&Size::period, 1>),
              HasSubstr("no period of 1 at rank 0"));
  EXPECT_THAT(check(MakeWith<&Size::is_ring, true>),
              HasSubstr("is no ring in round 1"));
  EXPECT_THAT(check(MakeWith<&Size::scratch_chunks, 0>),
              HasSubstr("another size"));
}

// Outline in which rank 0 sends to two ranks, but claims one transfer.
class TooFewTransfers : public Outline {
 public:
  TooFewTransfers()
      : Outline({.num_ranks = 3,
                 .num_rounds = 2,
                 .period = 3,
                 .most_transfers = 1}) {}
  void Append(int round, int first, int /*end*/,
              OutlineRound* into) const override {
    if (round == 0 || first > 0) return;
    into->transfers = {{0, 1, 1}, {0, 2, 1}};
  }
  int64_t NumResults(int round, int rank) const override {
    return round > 0 && rank > 0 ? 1 : 0;
  }
};

TEST(CheckOutlineTest, FindsARoundThatHasMoreTransfers) {
  const Algorithm algorithm = {
      .traits = {.collectives = {CollectiveType::kAllReduce}},
      .plan =
          [](const PlanRequest& request) {
            ScheduleBuilder builder(/*num_chunks=*/1);
            if (request.rank > 0) {
              builder.AddLane().Recv(0, /*tag=*/0, Data(0));
              return builder.Build();
            }
            for (const int to : {1, 2}) {
              builder.AddLane().Send(to, /*tag=*/0, Input(0));
            }
            return builder.Build();
          },
      .outline = [](const PlanRequest&) -> MadeOutline {
        return std::make_unique<TooFewTransfers>();
      }};
  EXPECT_THAT(std::string(CheckOutline(algorithm, ThreeRanks()).message()),
              HasSubstr("more than 1 transfers in round 1"));
}

// --- simulator ---------------------------------------------------------------

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

auto Takes(double microseconds) { return DoubleNear(microseconds, 1e-9); }

double MicrosecondsOf(const Outline& outline, const GroupLayout& layout,
                      const ClusterModel& cluster = Machine()) {
  const auto result = Simulate(outline, layout, cluster, 1000).value();
  return result.seconds * 1e6;
}

TEST(SimulatorTest, ATransferTakesItsLatencyAndItsBytes) {
  const GivenOutline two(2, {{}, {.transfers = {{0, 1, 4}}}});
  EXPECT_THAT(MicrosecondsOf(two, Uniform(1, 2)), Takes(5 + 4));
  EXPECT_THAT(MicrosecondsOf(two, Uniform(2, 1)), Takes(50 + 40));
}

TEST(SimulatorTest, EachMessageOccupiesTheLink) {
  ClusterModel cluster = Machine();
  cluster.seconds_per_message = 2e-6;
  const GivenOutline two(2, {{}, {.transfers = {{0, 1, 4}}}});
  EXPECT_THAT(MicrosecondsOf(two, Uniform(1, 2), cluster),
              Takes(5 + 4 * (1 + 2)));
}

TEST(SimulatorTest, WorkFollowsTheTransfersOfItsRound) {
  const GivenOutline two(2, {{.work = {{0, 0, 1}}},
                             {.transfers = {{0, 1, 1}}, .work = {{1, 3, 0}}}});
  EXPECT_THAT(MicrosecondsOf(two, Uniform(1, 2)), Takes(3 + 5 + 1 + 3 * 2));
}

TEST(SimulatorTest, ATransferWaitsForBothRanks) {
  // Rank 1 begins late.
  const GivenOutline three(3, {{.work = {{1, 10, 0}}},
                               {.transfers = {{0, 1, 1}}},
                               {.transfers = {{2, 0, 1}}}});
  EXPECT_THAT(MicrosecondsOf(three, Uniform(1, 3)), Takes(20 + 6 + 6));
}

TEST(SimulatorTest, WhatOneRankSendsInARoundSharesItsLink) {
  const GivenOutline three(3, {{}, {.transfers = {{0, 1, 1}, {0, 2, 1}}}});
  EXPECT_THAT(MicrosecondsOf(three, Uniform(1, 3)), Takes(5 + 2));
  const GivenOutline both_ways(2, {{}, {.transfers = {{0, 1, 1}, {1, 0, 1}}}});
  EXPECT_THAT(MicrosecondsOf(both_ways, Uniform(1, 2)), Takes(5 + 1));
}

TEST(SimulatorTest, RanksOfATaskShareTheLinkOutOfIt) {
  const GivenOutline four(4, {{}, {.transfers = {{0, 2, 1}, {1, 3, 1}}}});
  EXPECT_THAT(MicrosecondsOf(four, Uniform(2, 2)), Takes(50 + 20));
  EXPECT_THAT(MicrosecondsOf(four, Uniform(1, 4)), Takes(5 + 1));
}

TEST(SimulatorTest, LinksAreOfTheFirstClassThatJoinsTheRanks) {
  // 8 tasks of one rank, in hosts of 2 tasks and racks of 4.
  ClusterModel cluster = {.links = {{"a", {1e-6, 1e9}, 1},
                                    {"b", {10e-6, 1e9}, 2},
                                    {"c", {100e-6, 1e9}, 4},
                                    {"d", {1000e-6, 1e9}}}};
  const auto latency = [&](int to) {
    const GivenOutline one(8, {{}, {.transfers = {{0, to, 1}}}});
    return MicrosecondsOf(one, Uniform(8, 1), cluster) - 1;
  };
  EXPECT_THAT(latency(1), Takes(10));
  EXPECT_THAT(latency(2), Takes(100));
  EXPECT_THAT(latency(7), Takes(1000));
  // Tasks of a rack share one link to other racks.
  const GivenOutline two(8, {{}, {.transfers = {{0, 4, 1}, {3, 7, 1}}}});
  EXPECT_THAT(MicrosecondsOf(two, Uniform(8, 1), cluster), Takes(1000 + 2));
}

TEST(SimulatorTest, CountsWhatPassesEachClass) {
  const GivenOutline three(
      3, {{}, {.transfers = {{0, 1, 2}, {1, 2, 3}, {2, 0, 4}}}});
  const auto result =
      Simulate(three, *GroupLayout::Create({0, 0, 1}), Machine(), 1000).value();
  EXPECT_EQ(result.links[0].messages, 2);
  EXPECT_EQ(result.links[1].messages, 7);
  EXPECT_EQ(result.links[1].bytes, 7000);
}

TEST(SimulatorTest, RefusesWhatDoesNotFitTogether) {
  const GivenOutline two(2, {{}});
  const auto refused = [](const absl::StatusOr<Simulation>& result) {
    return std::string(result.status().message());
  };
  EXPECT_THAT(refused(Simulate(two, Uniform(3, 1), Machine(), 1)),
              HasSubstr("2 ranks on a layout 3x1, which has 3"));
  EXPECT_THAT(refused(Simulate(two, Uniform(1, 2), {}, 1)),
              HasSubstr("links is empty"));
}

// Refuses infinite times even where nothing takes that time: 0 times infinity
// is NaN.
TEST(SimulatorTest, RefusesTimesThatDoNotAddUp) {
  const GivenOutline two(2, {{.transfers = {{0, 1, 1}}}});
  const auto expect_refused = [&](const ClusterModel& cluster,
                                  const std::string& what) {
    EXPECT_THAT(Simulate(two, Uniform(1, 2), cluster, 1000),
                IsOutOfRange(what));
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
  for (const GroupLayout& layout : {Uniform(1, 6), Uniform(3, 2)}) {
    const auto result =
        Simulate(Rotating(false), layout, Machine(), 1000).value();
    EXPECT_EQ(result.simulated_ranks,
              layout.size() == 6 && layout.num_tasks() == 1 ? 1 : 2);
    EXPECT_EQ(result.links[0].messages + result.links[1].messages, 6);
  }
}

TEST(SimulatorTest, APeriodThatIsNoneIsAnError) {
  const auto result = Simulate(Rotating(true), Uniform(1, 6), Machine(), 1000);
  EXPECT_THAT(result, IsInternal("in round 1, ranks from 5 on"));
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
  const auto some = Simulate(ring, Uniform(2, 3), Machine(), 1000).value();
  EXPECT_EQ(some.simulated_ranks, 4);
  EXPECT_THAT(some.seconds * 1e6, Takes(2 * (50 + 10 + 2)));
  EXPECT_EQ(some.links[0].messages, 2 * 4);
  EXPECT_EQ(some.links[1].messages, 2 * 2);
}

TEST(SimulatorTest, ARingThatSharesLinksIsSimulatedWhole) {
  const OutlineRound round = RingRound({0, 2, 1, 3});
  const GivenRing ring(4, {{}, round});
  const auto all = Simulate(ring, Uniform(2, 2), Machine(), 1000).value();
  EXPECT_EQ(all.simulated_ranks, 4);
  EXPECT_THAT(all.seconds * 1e6, Takes(50 + 2 * 10 + 2));
}

TEST(SimulatorTest, ARingThatSharesProcessorsIsSimulatedWhole) {
  const OutlineRound round = RingRound({0, 1, 2, 3});
  const GivenRing ring(4, {{}, round});
  ClusterModel cluster = Machine();
  cluster.host = {.tasks = 0, .processors = 1, .inline_bytes = 0};
  const auto all = Simulate(ring, Uniform(1, 4), cluster, 1000).value();
  EXPECT_EQ(all.simulated_ranks, 4);
}

TEST(SimulatorTest, ARingThatIsNoneIsAnError) {
  OutlineRound round = RingRound({0, 1, 2, 3});
  round.work.pop_back();
  const GivenRing ring(4, {{}, RingRound({0, 1, 2, 3}), round});
  const auto result = Simulate(ring, Uniform(1, 4), Machine(), 1000);
  EXPECT_THAT(
      result,
      IsInternal("in round 2, ranks do not do what those of a ring do"));
}

TEST(SimulatorTest, TooMuchWorkIsRefused) {
  class Idle : public Outline {
   public:
    Idle(int num_rounds, int64_t most_transfers)
        : Outline({.num_ranks = 1 << 20,
                   .num_rounds = num_rounds,
                   .period = 1 << 20,
                   .most_transfers = most_transfers}) {}
    void Append(int, int, int, OutlineRound*) const override {}
    int64_t NumResults(int, int) const override { return 0; }
  };
  const auto simulate = [](int num_rounds, int64_t most_transfers = 0) {
    return Simulate(Idle(num_rounds, most_transfers), Uniform(1, 1 << 20),
                    Machine(), 1);
  };
  EXPECT_THAT(simulate(1 << 10), IsOk());
  EXPECT_EQ(simulate(1 << 11).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(simulate(1 << 11, 1 << 19), IsOk());
  EXPECT_THAT(simulate(1 << 4, 1 << 25), IsOk());
  EXPECT_THAT(simulate(1 << 4, (1 << 25) + 1),
              IsResourceExhausted("1048576 ranks have 33554433; wanted are at "
                                  "most 33554432"));
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
  const GroupLayout layout = Uniform(1, 4);
  EXPECT_THAT(MicrosecondsOf(four, layout, Hosts(0, 1)), Takes(5 + 4));
  EXPECT_THAT(MicrosecondsOf(four, layout, Hosts(0, 2)), Takes(5 + 2));
  EXPECT_THAT(MicrosecondsOf(four, layout, Hosts(0, 8)), Takes(5 + 1));
}

TEST(SimulatorTest, WorkOfAHostIsSharedOutToo) {
  const GivenOutline three(3, {{.work = {{0, 1, 0}, {1, 0, 2}, {2, 1, 1}}}});
  // Work of 2, 6 and 5: the last piece follows the first.
  EXPECT_THAT(MicrosecondsOf(three, Uniform(1, 3), Hosts(0, 2)), Takes(2 + 5));
}

TEST(SimulatorTest, WhatIsReceivedAndReducedTakesTheSlowerOfTheTwo) {
  // Three chunks to receive, 1 each; two of them to reduce, 2 each.
  const GivenOutline two(2,
                         {{}, {.transfers = {{0, 1, 3}}, .work = {{1, 2, 0}}}});
  ClusterModel cluster = Hosts(0, 1);
  const GroupLayout layout = Uniform(1, 2);
  EXPECT_THAT(MicrosecondsOf(two, layout, cluster), Takes(5 + 1 + 2 * 2));
  cluster.reduced_bytes_per_second = 1e12;
  EXPECT_THAT(MicrosecondsOf(two, layout, cluster), Takes(5 + 3));
}

TEST(SimulatorTest, AMessageBetweenTasksOfAHostIsWorkOfBothEnds) {
  ClusterModel cluster = Hosts(2, 1);
  cluster.seconds_per_message = 3e-6;
  const GivenOutline two(2, {{}, {.transfers = {{0, 1, 2}}}});
  EXPECT_THAT(MicrosecondsOf(two, Uniform(1, 2), cluster),
              Takes(5 + 2 * (1 + 3)));
  EXPECT_THAT(MicrosecondsOf(two, Uniform(2, 1), cluster),
              Takes(50 + 2 * (10 + 3 + 3)));
  cluster.host.processors = 2;
  EXPECT_THAT(MicrosecondsOf(two, Uniform(2, 1), cluster),
              Takes(50 + 2 * (10 + 3)));
}

TEST(SimulatorTest, LinksThatLeaveAHostAreNoWorkOfIt) {
  // 4 tasks in hosts of 2: each host has one inner message, and each task sends
  // or receives one outer message.
  const GivenOutline four(
      4, {{}, {.transfers = {{0, 1, 1}, {0, 2, 1}, {1, 3, 1}, {2, 3, 1}}}});
  const auto result = Simulate(four, Uniform(4, 1), Hosts(2, 1), 1000).value();
  EXPECT_THAT(result.seconds * 1e6, Takes(50 + 10));
  EXPECT_THAT(result.processor_seconds * 1e6, Takes(2 * 10));
}

TEST(SimulatorTest, SmallChunksOfATaskAreWorkOfOneThread) {
  const GivenOutline two(2, {{.work = {{0, 1, 0}, {1, 1, 0}}}});
  ClusterModel cluster = Hosts(0, 2);
  cluster.host.inline_bytes = 999;
  EXPECT_THAT(MicrosecondsOf(two, Uniform(1, 2), cluster), Takes(2));
  cluster.host.inline_bytes = 1000;
  EXPECT_THAT(MicrosecondsOf(two, Uniform(1, 2), cluster), Takes(4));
  EXPECT_THAT(MicrosecondsOf(two, Uniform(2, 1), cluster), Takes(2));
}

TEST(SimulatorTest, OnePeriodOfHostsStandsForAll) {
  const GroupLayout layout = Uniform(6, 1);
  const auto one = Simulate(Rotating(false), layout, Hosts(2, 1), 1000).value();
  EXPECT_EQ(one.simulated_ranks, 2);
  // The same ring on hosts that differ: the last host has two tasks.
  const auto all = Simulate(Rotating(false), layout, Hosts(4, 1), 1000).value();
  EXPECT_EQ(all.simulated_ranks, 6);
  // Ranks 0 to 1, 2 to 3 and 4 to 5 are within a host.
  EXPECT_THAT(one.processor_seconds * 1e6, Takes(3 * 10));
  EXPECT_THAT(all.processor_seconds * 1e6, Takes(4 * 10));
}

TEST(SharedPeriodTest, HoldsWholeHosts) {
  EXPECT_EQ(SharedPeriod(1, Uniform(1, 12), Hosts(1, 1)), 12);
  EXPECT_EQ(SharedPeriod(1, Uniform(4, 3), Hosts(2, 1)), 6);
  EXPECT_EQ(SharedPeriod(1, Uniform(4, 3), Hosts(0, 1)), 12);
  EXPECT_EQ(SharedPeriod(1, Uniform(4, 3), Hosts(3, 1)), 12);
  EXPECT_EQ(SharedPeriod(1, Uniform(4, 3), Hosts(2, 0)), 3);
  ClusterModel racks = Hosts(2, 1);
  racks.links.insert(racks.links.begin() + 1, LinkClass{"rack", {1, 1}, 3});
  EXPECT_EQ(SharedPeriod(1, Uniform(12, 1), racks), 6);
}

TEST(SharedPeriodTest, IsThatOfLayoutAndClusterToo) {
  const ClusterModel machine = Machine();
  EXPECT_EQ(SharedPeriod(1, Uniform(1, 12), machine), 1);
  EXPECT_EQ(SharedPeriod(1, Uniform(4, 3), machine), 3);
  EXPECT_EQ(SharedPeriod(2, Uniform(4, 3), machine), 6);
  EXPECT_EQ(SharedPeriod(12, Uniform(4, 3), machine), 12);
  EXPECT_EQ(SharedPeriod(1, *GroupLayout::Create({0, 1, 0, 1}), machine), 4);
  EXPECT_EQ(SharedPeriod(1, *GroupLayout::Create({0, 0, 1}), machine), 3);
  ClusterModel hosts = machine;
  hosts.links.insert(hosts.links.begin() + 1, LinkClass{"host", {1, 1}, 2});
  EXPECT_EQ(SharedPeriod(1, Uniform(4, 3), hosts), 6);
  EXPECT_EQ(SharedPeriod(1, Uniform(5, 3), hosts), 15);
}

// --- lower bound -------------------------------------------------------------

// Bound for 1e6 bytes, in microseconds: the bytes take 1000 within tasks and
// 10,000 between tasks.
double Bound(CollectiveType type, const GroupLayout& layout,
             std::vector<int> permutation = {}, double reduction = 1e12) {
  const ClusterModel cluster = {
      .links = {{"within", {5e-6, 1e9}, 1}, {"between", {50e-6, 1e8}}},
      .reduced_bytes_per_second = reduction};
  return 1e6 * LowerBoundSeconds(
                   {.layout = layout, .type = type, .permutation = permutation},
                   cluster, 1e6);
}

TEST(LowerBoundTest, IsThatOfTheOutermostLinksThatJoinTheRanks) {
  using enum CollectiveType;
  const GroupLayout two = Uniform(2, 3);
  EXPECT_THAT(Bound(kAllReduce, two), Takes(50 + 10000));
  EXPECT_THAT(Bound(kAllGather, two), Takes(50 + 5000));
  EXPECT_THAT(Bound(kReduceScatter, two), Takes(50 + 5000));
  EXPECT_THAT(Bound(kGather, two), Takes(50 + 5000));
  EXPECT_THAT(Bound(kScatter, two), Takes(50 + 5000));
  EXPECT_THAT(Bound(kBroadcast, two), Takes(50 + 10000));
  EXPECT_THAT(Bound(kReduce, two), Takes(50 + 10000));
  EXPECT_THAT(Bound(kScan, two), Takes(50 + 10000));
  EXPECT_THAT(Bound(kExscan, two), Takes(50 + 10000));
  EXPECT_THAT(Bound(kAllToAll, two), Takes(50 + 15000));
  EXPECT_THAT(Bound(kBarrier, two), Takes(50));
  const GroupLayout four = Uniform(4, 1);
  EXPECT_THAT(Bound(kAllReduce, four), Takes(50 + 15000));
  EXPECT_THAT(Bound(kAllGather, four), Takes(50 + 7500));
  // A task of one rank receives most.
  EXPECT_THAT(Bound(kAllGather, *GroupLayout::Create({0, 0, 0, 1})),
              Takes(50 + 7500));
}

TEST(LowerBoundTest, OfAPermutationIsWhatLeavesAPart) {
  const GroupLayout two = Uniform(2, 2);
  EXPECT_THAT(Bound(CollectiveType::kPermute, two, {2, 3, 0, 1}),
              Takes(50 + 20000));
  EXPECT_EQ(Bound(CollectiveType::kPermute, two, {0, 1, 2, 3}), 0);
  // Within tasks, a rank's links have 1.1 GB/s together.
  EXPECT_THAT(Bound(CollectiveType::kPermute, two, {1, 0, 3, 2}),
              Takes(5 + 1e3 / 1.1));
}

TEST(LowerBoundTest, OfOneTaskIsThatOfItsLinks) {
  EXPECT_THAT(Bound(CollectiveType::kBroadcast, Uniform(1, 2)),
              Takes(5 + 1000));
}

TEST(LowerBoundTest, ReductionsAreSharedByAllRanks) {
  EXPECT_THAT(Bound(CollectiveType::kReduce, Uniform(1, 4), {},
                    /*reduction=*/1e8),
              Takes(7500));
  EXPECT_THAT(Bound(CollectiveType::kExscan, Uniform(1, 4), {},
                    /*reduction=*/1e8),
              Takes(5000));
}

TEST(LowerBoundTest, OneRankWaitsForNothing) {
  EXPECT_EQ(Bound(CollectiveType::kAllReduce, Uniform(1, 1)), 0);
}

TEST(LowerBoundTest, ProcessorsOfAHostAreAsManyLinks) {
  ClusterModel cluster = {
      .links = {{"within", {5e-6, 1e9}, 1}, {"between", {50e-6, 1e8}}},
      .reduced_bytes_per_second = 1e12};
  const auto bound = [&cluster](const GroupLayout& layout) {
    return 1e6 * LowerBoundSeconds(
                     {.layout = layout, .type = CollectiveType::kAllReduce},
                     cluster, 1e6);
  };
  cluster.host = {.tasks = 2, .processors = 4};
  // 1.5 buffers by four processors; 1 buffer at 4e8; 1.5 buffers at 5e8, by
  // four processors and the link of the host.
  EXPECT_THAT(bound(Uniform(1, 4)), Takes(5 + 375));
  EXPECT_THAT(bound(Uniform(2, 1)), Takes(50 + 2500));
  EXPECT_THAT(bound(Uniform(4, 1)), Takes(50 + 3000));
  // Three reductions run on a single processor.
  cluster.host.processors = 1;
  cluster.reduced_bytes_per_second = 1e8;
  EXPECT_THAT(bound(Uniform(1, 4)), Takes(30000));
  // Several processors may reduce for one rank.
  cluster.host.processors = 60;
  EXPECT_THAT(bound(Uniform(1, 4)), Takes(500));
}

// Each of two hosts has two ranks. A rank sends to the other host at 1e8, and
// to its neighbour at 1e8 more, because the host's processor does that.
TEST(LowerBoundTest, OneClassOfLinksIsInHostsAndBetweenThem) {
  const ClusterModel cluster = {.links = {{"any", {50e-6, 1e8}}},
                                .host = {.tasks = 1, .processors = 1}};
  const auto bound = [&cluster](const GroupLayout& layout) {
    return 1e6 * LowerBoundSeconds(
                     {.layout = layout, .type = CollectiveType::kAllToAll},
                     cluster, 1e6);
  };
  EXPECT_THAT(bound(Uniform(2, 2)), Takes(50 + 3750));
  EXPECT_THAT(bound(Uniform(4, 1)), Takes(50 + 7500));
}

// Host 0 has tasks 0 to 5, host 1 has tasks 6 to 11. Links join tasks 0 to 7,
// and 8 to 15.
TEST(LowerBoundTest, AHostMayHaveTasksOnBothSidesOfALink) {
  ClusterModel cluster = {.links = {{"within", {5e-6, 1e9}, 1},
                                    {"near", {10e-6, 1e9}, 8},
                                    {"far", {50e-6, 1e8}}}};
  cluster.host = {.tasks = 6, .processors = 2};
  const GroupLayout layout = Uniform(16, 1);
  std::vector<int> permutation(16);
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation[6], permutation[8]);
  // Two tasks of one host exchange at 1e8 for each processor and the link.
  EXPECT_LE(LowerBoundSeconds({.layout = layout,
                               .type = CollectiveType::kPermute,
                               .permutation = permutation},
                              cluster, 1e6),
            50e-6 + 1e6 / 3e8 + 1e-9);
}

}  // namespace simulator_test
}  // namespace tutti
