#include "implementations/parts/subdivision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace tutti {
namespace subdivision_test {

using testing::ElementsAre;
using testing::SizeIs;
using testing::UnorderedElementsAre;

TEST(RingOrderTest, OffsetZeroIsTaskAfterTask) {
  EXPECT_THAT(RingOrder(GroupLayout::Uniform(2, 3), 0),
              ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(RingOrderTest, PositiveOffsetRotatesWithinEachTask) {
  EXPECT_THAT(RingOrder(GroupLayout::Uniform(2, 4), 1),
              ElementsAre(1, 2, 3, 0, 5, 6, 7, 4));
  EXPECT_THAT(RingOrder(GroupLayout::Uniform(1, 4), 5),
              ElementsAre(1, 2, 3, 0));
}

TEST(RingOrderTest, NegativeOffsetReversesAndThenRotates) {
  EXPECT_THAT(RingOrder(GroupLayout::Uniform(2, 4), -1),
              ElementsAre(2, 1, 0, 3, 6, 5, 4, 7));
  EXPECT_THAT(RingOrder(GroupLayout::Uniform(1, 8), -3),
              ElementsAre(4, 3, 2, 1, 0, 7, 6, 5));
}

TEST(RingOrderTest, MinusTheNumberOfDevicesIsThePlainReversal) {
  EXPECT_THAT(RingOrder(GroupLayout::Uniform(1, 4), -4),
              ElementsAre(3, 2, 1, 0));
}

TEST(RingOrderTest, OffsetsCountModuloEachTasksOwnDevices) {
  const auto layout = GroupLayout::Create({0, 0, 0, 1, 2, 2});
  ASSERT_TRUE(layout.ok());
  EXPECT_THAT(RingOrder(*layout, 2), ElementsAre(2, 0, 1, 3, 4, 5));
  EXPECT_THAT(RingOrder(*layout, -2), ElementsAre(0, 2, 1, 3, 5, 4));
}

TEST(RingOrderTest, TasksWithScatteredRanksStayTogether) {
  const auto layout = GroupLayout::Create({7, 3, 7, 3});
  ASSERT_TRUE(layout.ok());
  EXPECT_THAT(RingOrder(*layout, 0), ElementsAre(0, 2, 1, 3));
}

TEST(RingOrderTest, EveryOffsetGivesEachRankOnce) {
  const auto layout = GroupLayout::Create({0, 0, 0, 1, 2, 2});
  ASSERT_TRUE(layout.ok());
  for (int offset : {std::numeric_limits<int>::min(), -7, -1, 0, 3, 1000,
                     std::numeric_limits<int>::max()}) {
    std::vector<int> ring = RingOrder(*layout, offset);
    std::sort(ring.begin(), ring.end());
    EXPECT_THAT(ring, ElementsAre(0, 1, 2, 3, 4, 5)) << offset;
  }
}

TEST(RingOrderTest, ListIsTheRingOfOffsetZero) {
  const std::vector<int> list = {4, 1, 0, 3, 5, 2};
  EXPECT_EQ(RingOrder(GroupLayout::Uniform(2, 3), 0, list), list);
}

// Task 0 has places 1, 2 and 5 of the list; task 1 has the others.
TEST(RingOrderTest, DevicesOfATaskTakeEachOthersPlacesInTheList) {
  const std::vector<int> list = {4, 1, 0, 3, 5, 2};
  EXPECT_THAT(RingOrder(GroupLayout::Uniform(2, 3), 1, list),
              ElementsAre(3, 0, 2, 5, 4, 1));
  EXPECT_THAT(RingOrder(GroupLayout::Uniform(2, 3), -3, list),
              ElementsAre(5, 2, 0, 3, 4, 1));
}

TEST(RingTest, MembersSeeTheirNeighbours) {
  const GroupLayout layout = GroupLayout::Uniform(2, 4);
  const std::vector<int> offsets = {0, -1};
  const Ring ring({.layout = layout, .rank = 3, .subdiv_offsets = offsets},
                  /*subdiv=*/1);  // 2103 6547
  EXPECT_EQ(ring.size(), 8);
  EXPECT_EQ(ring.next(), 6);
  EXPECT_EQ(ring.previous(), 0);
  EXPECT_EQ(ring.Before(0), 3);
  EXPECT_EQ(ring.Before(3), 2);
  EXPECT_EQ(ring.Before(4), 7);
  EXPECT_EQ(ring.Before(8), 3);
}

TEST(RingTest, EveryRingHasItsChunkOfEachBlock) {
  const GroupLayout layout = GroupLayout::Uniform(1, 3);
  const std::vector<int> offsets = {0, 1, -3};
  std::vector<int> chunks;
  for (int subdiv = 0; subdiv < 3; ++subdiv) {
    const Ring ring({.layout = layout, .rank = 2, .subdiv_offsets = offsets},
                    subdiv);
    EXPECT_EQ(ring.subdiv(), subdiv);
    EXPECT_EQ(ring.ChunkBefore(0), 2 * 3 + subdiv);
    for (int places = 0; places < 3; ++places) {
      chunks.push_back(ring.ChunkBefore(places));
    }
  }
  EXPECT_THAT(chunks, UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(RingTest, OneMemberIsItsOwnNeighbour) {
  const GroupLayout layout = GroupLayout::Uniform(1, 1);
  const std::vector<int> offsets = {0};
  const Ring ring({.layout = layout, .subdiv_offsets = offsets}, /*subdiv=*/0);
  EXPECT_EQ(ring.next(), 0);
  EXPECT_EQ(ring.previous(), 0);
}

std::vector<int> Subdivide(int num_tasks, int devices, int64_t bytes,
                           int max_subdivs_per_device) {
  const GroupLayout layout = GroupLayout::Uniform(num_tasks, devices);
  return DefaultSubdivisions(
      {.layout = layout,
       .bytes = bytes,
       .max_subdivs_per_device = max_subdivs_per_device});
}

constexpr int64_t kMiB = 1 << 20;

TEST(DefaultSubdivisionsTest, OneWhileChunksAreAtMostFourMebibytes) {
  EXPECT_THAT(Subdivide(1, 8, 0, 0), ElementsAre(0));
  EXPECT_THAT(Subdivide(1, 8, 32 * kMiB, 0), ElementsAre(0));
}

TEST(DefaultSubdivisionsTest, FewestThatBringChunksToFourMebibytes) {
  EXPECT_THAT(Subdivide(1, 8, 32 * kMiB + 1, 0), ElementsAre(0, -4));
  EXPECT_THAT(Subdivide(1, 8, 128 * kMiB, 0), ElementsAre(0, -2, 4, -6));
  EXPECT_THAT(Subdivide(1, 8, 128 * kMiB + 1, 0), ElementsAre(0, -1, 2, -3, 4));
}

TEST(DefaultSubdivisionsTest, ZeroMeansTwoPerDevice) {
  EXPECT_THAT(Subdivide(2, 3, 1024 * kMiB, 0), SizeIs(6));
  EXPECT_EQ(Subdivide(2, 3, 1024 * kMiB, 0), Subdivide(2, 3, 1024 * kMiB, 2));
}

TEST(DefaultSubdivisionsTest, GivenMaximumCountsPerDeviceOfATask) {
  EXPECT_THAT(Subdivide(2, 3, 1024 * kMiB, 1), ElementsAre(0, -1, 2));
  EXPECT_THAT(Subdivide(8, 1, 1024 * kMiB, 3), ElementsAre(0, -1, 2));
}

TEST(DefaultSubdivisionsTest, MinusOneMeansNever) {
  EXPECT_THAT(Subdivide(1, 8, 1024 * kMiB, -1), ElementsAre(0));
}

TEST(DefaultSubdivisionsTest, OneOfLaunchesUnlessMoreAreWanted) {
  const GroupLayout layout = GroupLayout::Uniform(1, 8);
  SubdivisionRequest request = {
      .layout = layout, .bytes = 1024 * kMiB, .are_launches = true};
  EXPECT_THAT(DefaultSubdivisions(request), ElementsAre(0));
  request.max_subdivs_per_device = 2;
  EXPECT_THAT(DefaultSubdivisions(request), SizeIs(16));
}

TEST(DefaultSubdivisionsTest, NoMoreThanARequestMayGive) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  constexpr int kMany = std::numeric_limits<int>::max();
  EXPECT_THAT(Subdivide(1, 8, kHuge, kMany), SizeIs(1024));
  EXPECT_THAT(Subdivide(64, 1024, kHuge, kMany), SizeIs(256));
}

TEST(DefaultSubdivisionsTest, AverageCountsWhereTasksDiffer) {
  const auto layout = GroupLayout::Create({0, 0, 0, 1, 2, 2, 2});  // 3+1+3.
  ASSERT_TRUE(layout.ok());
  EXPECT_THAT(DefaultSubdivisions({.layout = *layout,
                                   .bytes = 1024 * kMiB,
                                   .max_subdivs_per_device = 1}),
              ElementsAre(0, -1));
}

}  // namespace subdivision_test
}  // namespace tutti
