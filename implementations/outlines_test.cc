#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "implementations/parts/binomial_tree.h"
#include "implementations/plan_testing.h"
#include "schedule/proof/verifier.h"
#include "schedule/simulate/cluster_model.h"
#include "schedule/simulate/lower_bound.h"
#include "schedule/simulate/outline_testing.h"
#include "schedule/simulate/planned_outline.h"
#include "schedule/simulate/simulator.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/schedule.h"

namespace tutti {
namespace outlines_test {

using ::testing::DoubleNear;
using ::testing::Ge;
using ::testing::UnorderedElementsAre;

constexpr int64_t kAnySteps = int64_t{1} << 40;

std::vector<std::string> NamesWithOutlines() {
  std::vector<std::string> names;
  for (const auto& entry : CollectiveRegistry::Global().List()) {
    const Algorithm* algorithm = AlgorithmOf(*entry.factory);
    if (algorithm != nullptr && algorithm->outline != nullptr) {
      names.push_back(entry.name);
    }
  }
  return names;
}

std::vector<GroupLayout> Layouts(int max_ranks) {
  std::vector<GroupLayout> layouts;
  for (int tasks = 1; tasks <= max_ranks; ++tasks) {
    for (int devices = 1; tasks * devices <= max_ranks; ++devices) {
      layouts.push_back(GroupLayout::Uniform(tasks, devices));
    }
  }
  layouts.push_back(*GroupLayout::Create({0, 0, 0, 1, 2, 2}));
  layouts.push_back(*GroupLayout::Create({0, 1, 0, 1, 0, 1, 0, 1}));
  return layouts;
}

std::vector<VerifyCase> Cases(const Algorithm& algorithm, int max_ranks) {
  std::vector<VerifyCase> cases;
  for (const GroupLayout& layout : Layouts(max_ranks)) {
    VerifyCase request = {.layout = layout,
                          .type = algorithm.traits.collectives.front()};
    if (!algorithm.traits.supports_subdivisions) {
      cases.push_back(request);
      continue;
    }
    for (const auto& offsets :
         {std::vector<int>{0}, {0, -1, 2}, {0, 1, 0, -2, 1}}) {
      request.subdiv_offsets = offsets;
      cases.push_back(request);
    }
  }
  return cases;
}

TEST(OutlineTest, IsThatOfThePlans) {
  for (const std::string& name : NamesWithOutlines()) {
    const Algorithm& algorithm = AlgorithmNamed(name);
    for (const VerifyCase& request : Cases(algorithm, /*max_ranks=*/24)) {
      SCOPED_TRACE(absl::StrCat(name, ": ", ToString(request)));
      EXPECT_THAT(CheckOutline(algorithm, request), IsOk());
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(OutlineTest, OfHalvingIsThatOfThePlansUpTo130Ranks) {
  const Algorithm& algorithm = AlgorithmNamed("RecursiveHalvingDoublingReduce");
  for (int n = 41; n <= 130; ++n) {
    SCOPED_TRACE(n);
    const VerifyCase request = {.layout = GroupLayout::Uniform(1, n)};
    EXPECT_THAT(CheckOutline(algorithm, request), IsOk());
    if (testing::Test::HasFailure()) return;
  }
}

// An outline without claims of a period or a ring.
class AllRanks : public Outline {
 public:
  explicit AllRanks(const Outline& outline)
      : Outline(WithoutClaims(outline.size())), outline_(outline) {}
  void Append(int round, int first, int end,
              OutlineRound* into) const override {
    outline_.Append(round, first, end, into);
  }
  int64_t NumResults(int round, int rank) const override {
    return outline_.NumResults(round, rank);
  }

 private:
  static Size WithoutClaims(Size size) {
    size.period = size.num_ranks;
    size.is_ring = false;
    return size;
  }
  const Outline& outline_;
};

// Cluster with three classes of links: in a task, in two tasks, in all tasks.
ClusterModel ThreeLevels() {
  return {.links = {{"within", {1e-6, 5e9}, 1},
                    {"host", {7e-6, 3e9}, 2},
                    {"net", {50e-6, 1e9}}},
          .seconds_per_message = 3e-7,
          .reduced_bytes_per_second = 7e9};
}

void ExpectSameByPeriod(const Outline& outline, const GroupLayout& layout,
                        const ClusterModel& cluster) {
  const auto some = Simulate(outline, layout, cluster, 1000.5);
  const auto all = Simulate(AllRanks(outline), layout, cluster, 1000.5);
  ASSERT_TRUE(some.ok()) << some.status();
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->simulated_ranks, layout.size());
  EXPECT_EQ(some->seconds, all->seconds);
  for (size_t i = 0; i < all->links.size(); ++i) {
    EXPECT_EQ(some->links[i].messages, all->links[i].messages);
    EXPECT_EQ(some->links[i].bytes, all->links[i].bytes);
  }
}

TEST(OutlineTest, RanksOfOnePeriodTakeAsLongAsAll) {
  for (const std::string& name : NamesWithOutlines()) {
    const Algorithm& algorithm = AlgorithmNamed(name);
    for (const VerifyCase& request : Cases(algorithm, /*max_ranks=*/40)) {
      SCOPED_TRACE(absl::StrCat(name, ": ", ToString(request)));
      const auto outline = OutlineOf(algorithm, request, kAnySteps);
      ExpectSameByPeriod(**outline, request.layout, ClusterOf());
      ExpectSameByPeriod(**outline, request.layout, ThreeLevels());
      if (testing::Test::HasFailure()) return;
    }
  }
}

// ThreeLevels() with the slowest links within tasks.
ClusterModel SlowWithinTasks() {
  ClusterModel cluster = ThreeLevels();
  cluster.links[0].cost = {200e-6, 1e8};
  return cluster;
}

TEST(OutlineTest, OneTransferOfEachClassOfLinksTakesAsLongAsARing) {
  for (const GroupLayout& layout :
       {GroupLayout::Uniform(2, 5), GroupLayout::Uniform(5, 2),
        GroupLayout::Uniform(3, 4), GroupLayout::Uniform(10, 10),
        *GroupLayout::Create({0, 0, 0, 1, 2, 2})}) {
    for (const char* name : {"RingReduce", "RingGather", "RingReduceScatter"}) {
      const Algorithm& algorithm = AlgorithmNamed(name);
      for (const auto& offsets :
           {std::vector<int>{0}, {1}, {-1}, {0, 0, 0}, {2, 2}}) {
        const VerifyCase request = {.layout = layout,
                                    .type = algorithm.traits.collectives[0],
                                    .subdiv_offsets = offsets};
        SCOPED_TRACE(absl::StrCat(name, ": ", ToString(request)));
        const auto outline = OutlineOf(algorithm, request, 0);
        EXPECT_TRUE((*outline)->size().is_ring);
        ExpectSameByPeriod(**outline, layout, ClusterOf());
        ExpectSameByPeriod(**outline, layout, ThreeLevels());
        ExpectSameByPeriod(**outline, layout, SlowWithinTasks());
      }
    }
  }
}

TEST(OutlineTest, RingsOfDifferentOrdersAreNoRing) {
  const auto outline = OutlineOf(AlgorithmNamed("RingReduce"),
                                 {.layout = GroupLayout::Uniform(2, 4),
                                  .type = CollectiveType::kAllReduce,
                                  .subdiv_offsets = {0, -2}},
                                 0);
  EXPECT_FALSE((*outline)->size().is_ring);
}

TEST(OutlineTest, OfBroadcastsIsThatOfThePlansFromAnyRoot) {
  for (const char* name : {"ChainBroadcast", "DoubleTreeBroadcast"}) {
    for (const GroupLayout& layout : Layouts(/*max_ranks=*/12)) {
      for (int root = 0; root < layout.size(); ++root) {
        const VerifyCase request = {.layout = layout,
                                    .type = CollectiveType::kBroadcast,
                                    .root = root,
                                    .subdiv_offsets = {0, 0, -1, 0}};
        SCOPED_TRACE(absl::StrCat(name, ": ", ToString(request)));
        EXPECT_THAT(CheckOutline(AlgorithmNamed(name), request), IsOk());
      }
    }
  }
}

TEST(OutlineTest, RingsHalvingShufflesChainsDoubleTreesAndTwoLevelsHaveOne) {
  EXPECT_THAT(
      NamesWithOutlines(),
      UnorderedElementsAre(
          "BruckGather", "ChainBroadcast", "DirectReduceScatter",
          "DoubleTreeBroadcast", "DoubleTreeReduce",
          "HierarchicalDoubleTreeReduce", "HierarchicalHalvingDoublingReduce",
          "HierarchicalRingReduce", "RecursiveHalvingDoublingReduce",
          "RecursiveHalvingReduceScatter", "RingGather", "RingReduce",
          "RingReduceScatter", "ShuffleReduce",
          "ShuffleThenRecursiveHalvingDoubling", "ShuffleThenRing",
          "ShuffleThenShuffle"));
}

// ThreeLevels() with two tasks per host, which share its processors.
ClusterModel WithHosts() {
  ClusterModel cluster = ThreeLevels();
  cluster.host = {.tasks = 2, .processors = 3, .inline_bytes = 100};
  return cluster;
}

void ExpectSameTime(const Outline& outline, const Outline& planned,
                    const VerifyCase& request, const ClusterModel& cluster) {
  for (const double bytes : {0.0, 1.0, 7.0, 1001.0, 1e7 + 1}) {
    const double chunk_bytes = bytes / outline.size().num_chunks;
    const auto own = Simulate(outline, request.layout, cluster, chunk_bytes);
    const auto want = Simulate(planned, request.layout, cluster, chunk_bytes);
    ASSERT_TRUE(own.ok() && want.ok()) << own.status() << want.status();
    EXPECT_EQ(own->seconds, want->seconds) << bytes;
    EXPECT_EQ(own->processor_seconds, want->processor_seconds);
    for (size_t i = 0; i < want->links.size(); ++i) {
      EXPECT_EQ(own->links[i].messages, want->links[i].messages);
      EXPECT_EQ(own->links[i].bytes, want->links[i].bytes);
    }
  }
}

TEST(OutlineTest, TakesAsLongAsThePlans) {
  for (const std::string& name : NamesWithOutlines()) {
    const Algorithm& algorithm = AlgorithmNamed(name);
    for (const auto& [tasks, devices] :
         {std::pair{2, 2}, {3, 2}, {4, 4}, {5, 3}}) {
      for (VerifyCase request : Cases(algorithm, /*max_ranks=*/1)) {
        request.layout = GroupLayout::Uniform(tasks, devices);
        SCOPED_TRACE(absl::StrCat(name, ": ", ToString(request)));
        // With max_steps 0 only the algorithm's `outline` function can make
        // one.
        const auto outline = OutlineOf(algorithm, request, /*max_steps=*/0);
        const auto planned = PlannedOutline(algorithm, request, kAnySteps);
        ASSERT_TRUE(outline.ok() && planned.ok());
        ExpectSameTime(**outline, **planned, request, ClusterOf());
        ExpectSameTime(**outline, **planned, request, ThreeLevels());
        ExpectSameTime(**outline, **planned, request, WithHosts());
      }
    }
  }
}

constexpr double kFree = std::numeric_limits<double>::infinity();

ClusterModel OneLevel(double latency, double bandwidth, double reduction) {
  return {.links = {{"all", {latency, bandwidth}}},
          .reduced_bytes_per_second = reduction,
          .copied_bytes_per_second = kFree};
}

double SecondsOf(const std::string& name, int num_ranks, double bytes,
                 const ClusterModel& cluster) {
  const Algorithm& algorithm = AlgorithmNamed(name);
  VerifyCase request = {.layout = GroupLayout::Uniform(1, num_ranks),
                        .type = algorithm.traits.collectives.front()};
  if (algorithm.traits.supports_subdivisions) request.subdiv_offsets = {0};
  const auto outline = OutlineOf(algorithm, request, kAnySteps);
  const auto result = Simulate(**outline, request.layout, cluster,
                               bytes / (*outline)->size().num_chunks);
  EXPECT_TRUE(result.ok()) << result.status();
  return result->seconds;
}

TEST(SimulatedTimeTest, OfLatencyAloneIsTheTransfersInARow) {
  const ClusterModel cluster = OneLevel(1e-6, kFree, kFree);
  for (int n : {1, 2, 3, 5, 8, 13, 16, 31, 64}) {
    SCOPED_TRACE(n);
    const auto steps = [&](const std::string& name) {
      return SecondsOf(name, n, 1e6, cluster) / 1e-6;
    };
    EXPECT_THAT(steps("RingReduce"), DoubleNear(2 * (n - 1), 1e-6));
    EXPECT_THAT(steps("RingGather"), DoubleNear(n - 1, 1e-6));
    EXPECT_THAT(steps("TreeReduce"), DoubleNear(2 * CeilLog2(n), 1e-6));
    EXPECT_THAT(steps("RecursiveHalvingDoublingReduce"),
                DoubleNear(2 * CeilLog2(n), 1e-6));
  }
}

TEST(SimulatedTimeTest, OfBandwidthAloneIsThatOfTheBytesSent) {
  const ClusterModel cluster = OneLevel(0, 1e9, kFree);
  const double bytes = 64e6;
  for (int n : {2, 4, 8, 32, 64}) {
    SCOPED_TRACE(n);
    const double least = 2 * (n - 1.0) / n * bytes / 1e9;
    EXPECT_THAT(SecondsOf("RingReduce", n, bytes, cluster),
                DoubleNear(least, 1e-9));
    EXPECT_THAT(SecondsOf("RecursiveHalvingDoublingReduce", n, bytes, cluster),
                DoubleNear(least, 1e-9));
    EXPECT_THAT(SecondsOf("TreeReduce", n, bytes, cluster),
                DoubleNear(2 * CeilLog2(n) * bytes / 1e9, 1e-9));
  }
}

TEST(SimulatedTimeTest, OfReductionAloneIsThatOfTheBytesReduced) {
  const ClusterModel cluster = OneLevel(0, kFree, 1e9);
  for (int n : {2, 4, 8, 32}) {
    SCOPED_TRACE(n);
    const double share = (n - 1.0) / n * 64e6 / 1e9;
    EXPECT_THAT(SecondsOf("RingReduce", n, 64e6, cluster),
                DoubleNear(share, 1e-9));
    EXPECT_THAT(SecondsOf("RecursiveHalvingDoublingReduce", n, 64e6, cluster),
                DoubleNear(share, 1e-9));
  }
}

TEST(SimulatedTimeTest, IsNeverBelowTheLowerBound) {
  for (const auto& entry : CollectiveRegistry::Global().List()) {
    const Algorithm* algorithm = AlgorithmOf(*entry.factory);
    if (algorithm == nullptr) continue;
    for (const GroupLayout& layout : Layouts(/*max_ranks=*/12)) {
      for (CollectiveType type : algorithm->traits.collectives) {
        VerifyCase request = {.layout = layout, .type = type};
        if (algorithm->traits.supports_subdivisions) {
          request.subdiv_offsets = {0, -1};
        }
        for (int i = 0; type == CollectiveType::kPermute && i < layout.size();
             ++i) {
          request.permutation.push_back((i + 1) % layout.size());
        }
        const auto outline = OutlineOf(*algorithm, request, kAnySteps);
        ASSERT_TRUE(outline.ok()) << outline.status();
        for (double bytes : {12.0, 1e5, 1e9}) {
          const double chunk = type == CollectiveType::kBarrier
                                   ? 1
                                   : bytes / (*outline)->size().num_chunks;
          const auto result = Simulate(**outline, layout, ThreeLevels(), chunk);
          ASSERT_TRUE(result.ok()) << result.status();
          EXPECT_THAT(result->seconds * (1 + 1e-9) + 1e-11,
                      Ge(LowerBoundSeconds({.layout = layout,
                                            .type = type,
                                            .permutation = request.permutation},
                                           ThreeLevels(), bytes)))
              << entry.name << ": " << ToString(request) << ", " << bytes;
        }
      }
    }
  }
}

TEST(SimulatedTimeTest, GrowsWithBytesAndLatencyAndWithSlowerLinks) {
  for (const char* name :
       {"RingReduce", "TreeReduce", "RecursiveHalvingDoublingReduce",
        "ShuffleReduce", "RecursiveDoublingReduce"}) {
    for (int n : {2, 7, 12}) {
      SCOPED_TRACE(absl::StrCat(name, " ", n));
      const double base = SecondsOf(name, n, 1e6, OneLevel(1e-6, 1e9, 1e10));
      EXPECT_GT(SecondsOf(name, n, 2e6, OneLevel(1e-6, 1e9, 1e10)), base);
      EXPECT_GT(SecondsOf(name, n, 1e6, OneLevel(2e-6, 1e9, 1e10)), base);
      EXPECT_GT(SecondsOf(name, n, 1e6, OneLevel(1e-6, 5e8, 1e10)), base);
      EXPECT_GT(SecondsOf(name, n, 1e6, OneLevel(1e-6, 1e9, 5e9)), base);
    }
  }
}

TEST(SimulatedTimeTest, OfDoubleTreesIsNearTheLeastForManyPieces) {
  const Algorithm& algorithm = AlgorithmNamed("DoubleTreeReduce");
  const ClusterModel cluster = OneLevel(0, 1e9, kFree);
  const VerifyCase request = {.layout = GroupLayout::Uniform(1, 1000),
                              .subdiv_offsets = std::vector<int>(1000)};
  const auto outline = OutlineOf(algorithm, request, kAnySteps);
  const auto result = Simulate(**outline, request.layout, cluster,
                               64e6 / (*outline)->size().num_chunks);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_LT(result->seconds, 1.05 * 2 * 64e6 / 1e9);
}

TEST(SimulatedTimeTest, OfAChainOfAHundredThousandRanksHasTheClosedForm) {
  const Algorithm& algorithm = AlgorithmNamed("ChainBroadcast");
  const int n = 100000;
  const VerifyCase request = {.layout = GroupLayout::Uniform(1, n),
                              .type = CollectiveType::kBroadcast,
                              .root = 70000,
                              .subdiv_offsets = std::vector<int>(8)};
  const auto outline = OutlineOf(algorithm, request, 0);
  const auto result =
      Simulate(**outline, request.layout, OneLevel(1e-6, 1e9, kFree), 1e6);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->seconds, DoubleNear((n - 2 + 8) * (1e-6 + 1e-3), 1e-6));
}

TEST(SimulatedTimeTest, OfAHundredThousandRanksAndTheirRootHasTheClosedForm) {
  const ClusterModel cluster = OneLevel(1e-6, 1e9, kFree);
  const int n = 100000;
  const double bytes = 64e6;
  const double rounds = n / 8.0;  // The root has eight transfers at once.
  for (const char* name : {"Gather", "Scatter"}) {
    EXPECT_THAT(SecondsOf(name, n, bytes, cluster),
                DoubleNear(rounds * 1e-6 + (n - 1.0) / n * bytes / 1e9, 1e-6))
        << name;
  }
}

TEST(SimulatedTimeTest, OfAHundredThousandRanksHasTheClosedForm) {
  const ClusterModel cluster = OneLevel(1e-6, 1e9, kFree);
  const int n = 100000;
  const double bytes = 64e6;
  EXPECT_THAT(SecondsOf("RingReduce", n, bytes, cluster),
              DoubleNear(2 * (n - 1) * (1e-6 + bytes / n / 1e9), 1e-6));
  const double halving =
      SecondsOf("RecursiveHalvingDoublingReduce", n, bytes, cluster);
  EXPECT_GT(halving, 2 * CeilLog2(n) * 1e-6 + 2 * (n - 1.0) / n * bytes / 1e9);
  EXPECT_LT(halving, 2 * CeilLog2(n) * 1e-6 + 3 * bytes / 1e9);
}

}  // namespace outlines_test
}  // namespace tutti
