#include "schedule/simulate/lower_bound.h"

#include <numeric>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti {
namespace lower_bound_test {

using ::testing::DoubleNear;

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
  const GroupLayout two = GroupLayout::Uniform(2, 3);
  EXPECT_THAT(Bound(kAllReduce, two), DoubleNear(50 + 10000, 1e-6));
  EXPECT_THAT(Bound(kAllGather, two), DoubleNear(50 + 5000, 1e-6));
  EXPECT_THAT(Bound(kReduceScatter, two), DoubleNear(50 + 5000, 1e-6));
  EXPECT_THAT(Bound(kGather, two), DoubleNear(50 + 5000, 1e-6));
  EXPECT_THAT(Bound(kScatter, two), DoubleNear(50 + 5000, 1e-6));
  EXPECT_THAT(Bound(kBroadcast, two), DoubleNear(50 + 10000, 1e-6));
  EXPECT_THAT(Bound(kReduce, two), DoubleNear(50 + 10000, 1e-6));
  EXPECT_THAT(Bound(kAllToAll, two), DoubleNear(50 + 15000, 1e-6));
  EXPECT_THAT(Bound(kBarrier, two), DoubleNear(50, 1e-6));
  const GroupLayout four = GroupLayout::Uniform(4, 1);
  EXPECT_THAT(Bound(kAllReduce, four), DoubleNear(50 + 15000, 1e-6));
  EXPECT_THAT(Bound(kAllGather, four), DoubleNear(50 + 7500, 1e-6));
  // A task of one rank receives most.
  EXPECT_THAT(Bound(kAllGather, *GroupLayout::Create({0, 0, 0, 1})),
              DoubleNear(50 + 7500, 1e-6));
}

TEST(LowerBoundTest, OfAPermutationIsWhatLeavesAPart) {
  const GroupLayout two = GroupLayout::Uniform(2, 2);
  EXPECT_THAT(Bound(CollectiveType::kPermute, two, {2, 3, 0, 1}),
              DoubleNear(50 + 20000, 1e-6));
  EXPECT_EQ(Bound(CollectiveType::kPermute, two, {0, 1, 2, 3}), 0);
  // Within tasks, a rank's links have 1.1 GB/s together.
  EXPECT_THAT(Bound(CollectiveType::kPermute, two, {1, 0, 3, 2}),
              DoubleNear(5 + 1e3 / 1.1, 1e-6));
}

TEST(LowerBoundTest, OfOneTaskIsThatOfItsLinks) {
  EXPECT_THAT(Bound(CollectiveType::kBroadcast, GroupLayout::Uniform(1, 2)),
              DoubleNear(5 + 1000, 1e-6));
}

TEST(LowerBoundTest, ReductionsAreSharedByAllRanks) {
  EXPECT_THAT(Bound(CollectiveType::kReduce, GroupLayout::Uniform(1, 4), {},
                    /*reduction=*/1e8),
              DoubleNear(7500, 1e-6));
}

TEST(LowerBoundTest, OneRankWaitsForNothing) {
  EXPECT_EQ(Bound(CollectiveType::kAllReduce, GroupLayout::Uniform(1, 1)), 0);
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
  EXPECT_THAT(bound(GroupLayout::Uniform(1, 4)), DoubleNear(5 + 375, 1e-6));
  EXPECT_THAT(bound(GroupLayout::Uniform(2, 1)), DoubleNear(50 + 2500, 1e-6));
  EXPECT_THAT(bound(GroupLayout::Uniform(4, 1)), DoubleNear(50 + 3000, 1e-6));
  // Three reductions run on a single processor.
  cluster.host.processors = 1;
  cluster.reduced_bytes_per_second = 1e8;
  EXPECT_THAT(bound(GroupLayout::Uniform(1, 4)), DoubleNear(30000, 1e-6));
  // Several processors may reduce for one rank.
  cluster.host.processors = 60;
  EXPECT_THAT(bound(GroupLayout::Uniform(1, 4)), DoubleNear(500, 1e-6));
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
  EXPECT_THAT(bound(GroupLayout::Uniform(2, 2)), DoubleNear(50 + 3750, 1e-6));
  EXPECT_THAT(bound(GroupLayout::Uniform(4, 1)), DoubleNear(50 + 7500, 1e-6));
}

// Host 0 has tasks 0 to 5, host 1 has tasks 6 to 11. Links join tasks 0 to 7,
// and 8 to 15.
TEST(LowerBoundTest, AHostMayHaveTasksOnBothSidesOfALink) {
  ClusterModel cluster = {.links = {{"within", {5e-6, 1e9}, 1},
                                    {"near", {10e-6, 1e9}, 8},
                                    {"far", {50e-6, 1e8}}}};
  cluster.host = {.tasks = 6, .processors = 2};
  const GroupLayout layout = GroupLayout::Uniform(16, 1);
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

}  // namespace lower_bound_test
}  // namespace tutti
