#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "implementations/parts/binomial_tree.h"
#include "implementations/parts/cost.h"
#include "implementations/parts/double_tree.h"
#include "implementations/parts/halving.h"
#include "implementations/parts/rank_cube.h"
#include "implementations/parts/subdivision.h"

namespace tutti {
namespace parts_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

// --- shapes ------------------------------------------------------------------

TEST(BinomialTreeTest, LooksLikeThePicture) {
  EXPECT_THAT(BinomialChildren(0, 8), ElementsAre(1, 2, 4));
  EXPECT_THAT(BinomialChildren(4, 8), ElementsAre(5, 6));
  EXPECT_THAT(BinomialChildren(6, 8), ElementsAre(7));
  EXPECT_THAT(BinomialChildren(7, 8), IsEmpty());
  EXPECT_THAT(BinomialChildren(0, 1), IsEmpty());
  EXPECT_THAT(BinomialChildren(0, 6), ElementsAre(1, 2, 4));
  EXPECT_THAT(BinomialChildren(4, 6), ElementsAre(5));
}

TEST(BinomialTreeTest, ParentAndChildrenAgree) {
  for (int size = 1; size <= 130; ++size) {
    std::vector<int> parent(size, -1);
    for (int position = 0; position < size; ++position) {
      for (int child : BinomialChildren(position, size)) {
        EXPECT_EQ(parent[child], -1) << child << " has two parents";
        parent[child] = position;
      }
    }
    for (int position = 1; position < size; ++position) {
      EXPECT_EQ(BinomialParent(position), parent[position]);
    }
  }
}

// Appends `position` and all positions below it, from left to right.
void Collect(int position, int size, std::vector<int>* positions) {
  positions->push_back(position);
  for (int child : BinomialChildren(position, size)) {
    Collect(child, size, positions);
  }
}

TEST(BinomialTreeTest, SubtreesFromLeftToRightAreConsecutive) {
  for (int size : {1, 2, 3, 7, 8, 13, 64, 100}) {
    std::vector<int> positions;
    Collect(0, size, &positions);
    ASSERT_EQ(positions.size(), static_cast<size_t>(size));
    for (int i = 0; i < size; ++i) EXPECT_EQ(positions[i], i);
  }
}

TEST(BinomialTreeTest, DepthIsAtMostTheLogarithm) {
  for (int size : {2, 3, 7, 8, 13, 64, 100, 65536}) {
    for (int position = 1; position < size; ++position) {
      int depth = 0;
      for (int p = position; p != 0; p = BinomialParent(p)) ++depth;
      ASSERT_LE(depth, CeilLog2(size)) << position << " of " << size;
    }
  }
}

TEST(BinomialTreeTest, LogarithmRoundsUp) {
  EXPECT_EQ(CeilLog2(1), 0);
  EXPECT_EQ(CeilLog2(2), 1);
  EXPECT_EQ(CeilLog2(3), 2);
  EXPECT_EQ(CeilLog2(65536), 16);
  EXPECT_EQ(CeilLog2(65537), 17);
}

constexpr int kMaxSize = 130;

// Appends `top` and the positions below it, from left to right. `depth` is its
// distance from the root.
void Walk(int tree, int size, int top, int depth, int* height,
          std::vector<int>* positions) {
  if (top < 0) return;
  *height = std::max(*height, depth);
  const TreePlace place = PlaceInTree(tree, top, size);
  Walk(tree, size, place.left, depth + 1, height, positions);
  positions->push_back(top);
  Walk(tree, size, place.right, depth + 1, height, positions);
}

TEST(DoubleTreeTest, BothTreesHaveAllPositionsFromLeftToRight) {
  for (int size = 1; size <= kMaxSize; ++size) {
    for (const int tree : {0, 1}) {
      int height = 0;
      std::vector<int> positions;
      Walk(tree, size, RootOfTree(tree, size), 0, &height, &positions);
      ASSERT_EQ(positions.size(), static_cast<size_t>(size));
      for (int i = 0; i < size; ++i) EXPECT_EQ(positions[i], i);
      EXPECT_LE(height, CeilLog2(size));
    }
  }
}

TEST(DoubleTreeTest, ParentsAndChildrenKnowEachOther) {
  for (int size = 1; size <= kMaxSize; ++size) {
    for (const int tree : {0, 1}) {
      for (int position = 0; position < size; ++position) {
        const TreePlace place = PlaceInTree(tree, position, size);
        EXPECT_EQ(place.parent < 0, position == RootOfTree(tree, size));
        for (const int child : {place.left, place.right}) {
          if (child < 0) continue;
          EXPECT_EQ(PlaceInTree(tree, child, size).parent, position);
        }
      }
    }
  }
}

TEST(DoubleTreeTest, ChildrenAreInOneTreeOnly) {
  for (int size = 2; size <= kMaxSize; ++size) {
    for (int position = 0; position < size; ++position) {
      const auto has_children = [&](int tree) {
        const TreePlace place = PlaceInTree(tree, position, size);
        return place.left >= 0 || place.right >= 0;
      };
      EXPECT_NE(has_children(0), has_children(1));
    }
  }
}

TEST(DoubleTreeTest, ShareNoLinkInOneDirection) {
  for (int size = 2; size <= kMaxSize; ++size) {
    std::set<std::pair<int, int>> links;
    for (const int tree : {0, 1}) {
      for (int position = 0; position < size; ++position) {
        const int parent = PlaceInTree(tree, position, size).parent;
        if (parent < 0) continue;
        EXPECT_TRUE(links.emplace(position, parent).second);
      }
    }
  }
}

// Calls `visit` with the rank, the seat and its exchanges.
template <typename Visit>
void ForAllExchanges(const Halving& halving, int size, Visit visit) {
  for (int rank = 0; rank < size; ++rank) {
    for (const int seat : halving.SeatsOf(rank)) {
      visit(rank, seat, halving.ExchangesOf(rank, seat));
    }
  }
}

TEST(HalvingTest, LooksLikeThePicture) {
  const Halving halving(4);
  const auto exchanges = halving.ExchangesOf(/*rank=*/2, /*seat=*/0);
  ASSERT_THAT(exchanges, SizeIs(2));
  EXPECT_EQ(exchanges[0].peer, 3);
  EXPECT_EQ(exchanges[1].peer, 0);
  for (const int block : {0, 1, 2, 3}) {
    EXPECT_EQ(exchanges[0].sent.Has(halving.PlaceOf(block)), block % 2 == 1);
    EXPECT_EQ(exchanges[1].sent.Has(halving.PlaceOf(block)), block == 0);
    EXPECT_EQ(exchanges[1].kept.Has(halving.PlaceOf(block)), block == 2);
  }
}

TEST(HalvingTest, BlocksThatTravelTogetherAreConsecutive) {
  for (int size = 2; size <= kMaxSize; ++size) {
    const Halving halving(size);
    ForAllExchanges(halving, size, [&](int, int, const auto& exchanges) {
      Halving::Places had = {exchanges[0].kept.first,
                             exchanges[0].kept.count + exchanges[0].sent.count};
      had.first = std::min(had.first, exchanges[0].sent.first);
      for (const auto& [peer, sent, kept] : exchanges) {
        EXPECT_EQ(std::min(sent.first, kept.first), had.first);
        EXPECT_TRUE(sent.first + sent.count == kept.first ||
                    kept.first + kept.count == sent.first);
        EXPECT_EQ(sent.count + kept.count, had.count);
        had = kept;
      }
    });
  }
}

TEST(HalvingTest, EveryBlockEndsAtItsOwner) {
  for (int size = 1; size <= kMaxSize; ++size) {
    const Halving halving(size);
    std::set<int> places;
    for (int block = 0; block < size; ++block) {
      places.insert(halving.PlaceOf(block));
    }
    EXPECT_THAT(places, SizeIs(size));
    EXPECT_EQ(*places.begin(), 0);
    EXPECT_EQ(*places.rbegin(), size - 1);
    ForAllExchanges(halving, size, [&](int rank, int, const auto& exchanges) {
      if (exchanges.empty()) return;
      const Halving::Places& kept = exchanges.back().kept;
      EXPECT_LE(kept.count, 1);
      if (kept.count == 0) return;
      EXPECT_EQ(kept.first, halving.PlaceOf(rank));
    });
  }
}

TEST(HalvingTest, APeerKeepsWhatIsSent) {
  for (int size = 1; size <= kMaxSize; ++size) {
    const Halving halving(size);
    ForAllExchanges(halving, size, [&](int rank, int seat, const auto& all) {
      for (size_t i = 0; i < all.size(); ++i) {
        const int dimension = halving.FirstDimension(rank) + int(i);
        const auto sizes = halving.SizesOf(rank, seat, dimension);
        EXPECT_EQ(sizes.peer, all[i].peer);
        EXPECT_EQ(sizes.num_sent, all[i].sent.count);
        EXPECT_EQ(sizes.num_kept, all[i].kept.count);
        const auto of_peer =
            halving.ExchangesOf(all[i].peer, dimension < 0 ? 1 - seat : seat);
        const auto& other =
            of_peer[dimension - halving.FirstDimension(all[i].peer)];
        EXPECT_EQ(other.kept.first, all[i].sent.first);
        EXPECT_EQ(other.kept.count, all[i].sent.count);
      }
    });
  }
}

TEST(HalvingTest, NobodyReceivesMuchMoreThanOthers) {
  for (int size = 1; size <= kMaxSize; ++size) {
    const bool is_cube = size == 1 << CeilLog2(size);
    std::vector<int> received(size);
    ForAllExchanges(Halving(size), size,
                    [&](int rank, int, const auto& exchanges) {
                      for (const auto& exchange : exchanges) {
                        received[rank] += exchange.kept.count;
                      }
                    });
    for (const int blocks : received) {
      EXPECT_LE(blocks, size - 1 + (is_cube ? 0 : CeilLog2(size) - 1)) << size;
    }
  }
}

TEST(RankCubeTest, LooksLikeThePicture) {
  const RankCube cube(5);
  EXPECT_EQ(cube.num_dimensions(), 2);
  EXPECT_EQ(cube.num_corners(), 4);
  EXPECT_EQ(cube.num_shared(), 1);
  EXPECT_EQ(cube.NumRanksAt(0), 2);
  EXPECT_EQ(cube.RankAt(0, 0), 0);
  EXPECT_EQ(cube.RankAt(0, 1), 1);
  for (int corner = 1; corner < 4; ++corner) {
    EXPECT_EQ(cube.NumRanksAt(corner), 1);
    EXPECT_EQ(cube.RankAt(corner, 0), corner + 1);
    EXPECT_EQ(cube.RankAt(corner, 1), corner + 1);
  }
}

TEST(RankCubeTest, OneRankHasNoNeighbours) {
  const RankCube cube(1);
  EXPECT_EQ(cube.num_dimensions(), 0);
  EXPECT_EQ(cube.NumRanksAt(0), 1);
  EXPECT_EQ(cube.CornerOf(0), 0);
}

TEST(RankCubeTest, AcrossADimensionIsTheSameSeatIfThereAreTwo) {
  const RankCube cube(5);  // Corners {0,1}, 2, 3, 4.
  EXPECT_EQ(cube.Across(0, /*dimension=*/0), 2);
  EXPECT_EQ(cube.Across(1, /*dimension=*/1), 3);
  EXPECT_EQ(cube.Across(2, /*dimension=*/0), 0);
  EXPECT_EQ(cube.Across(4, /*dimension=*/0), 3);
  EXPECT_EQ(cube.PartnerOf(4), 4);
}

TEST(RankCubeTest, SeatsOfAllCornersAreTheRanksInOrder) {
  for (int size = 1; size <= 130; ++size) {
    const RankCube cube(size);
    int rank = 0;
    for (int corner = 0; corner < cube.num_corners(); ++corner) {
      for (int seat = 0; seat < cube.NumRanksAt(corner); ++seat, ++rank) {
        EXPECT_EQ(cube.RankAt(corner, seat), rank);
        EXPECT_EQ(cube.CornerOf(rank), corner);
        EXPECT_EQ(cube.SeatOf(rank), seat);
        EXPECT_EQ(cube.PartnerOf(rank), cube.RankAt(corner, 1 - seat));
      }
    }
    EXPECT_EQ(rank, size);
  }
}

// --- subdivision -------------------------------------------------------------

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

// The rings that TensorFlow's RingReducer makes of 3 tasks with 8 devices.
TEST(RingOrderTest, OffsetsAreThoseOfTensorFlow) {
  const std::pair<int, std::vector<int>> first_task_of_offset[] = {
      {0, {0, 1, 2, 3, 4, 5, 6, 7}},
      {4, {4, 5, 6, 7, 0, 1, 2, 3}},
      {-4, {3, 2, 1, 0, 7, 6, 5, 4}},
      {3, {3, 4, 5, 6, 7, 0, 1, 2}},
      {-3, {4, 3, 2, 1, 0, 7, 6, 5}}};
  for (const auto& [offset, first_task] : first_task_of_offset) {
    std::vector<int> ring;
    for (int task = 0; task < 3; ++task) {
      for (int device : first_task) ring.push_back(8 * task + device);
    }
    EXPECT_EQ(RingOrder(GroupLayout::Uniform(3, 8), offset), ring) << offset;
  }
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

TEST(DefaultSubdivisionsTest, AreThoseOfTensorFlow) {
  EXPECT_THAT(Subdivide(3, 8, 24 * 4, 0), ElementsAre(0));
  EXPECT_THAT(Subdivide(3, 8, 24 * 2 * 3 * kMiB, 0), ElementsAre(0, -4));
  const std::vector<int> offsets = Subdivide(4, 1, 100 * kMiB, 0);
  EXPECT_THAT(offsets, SizeIs(2));
  for (int offset : offsets) {
    EXPECT_THAT(RingOrder(GroupLayout::Uniform(4, 1), offset),
                ElementsAre(0, 1, 2, 3));
  }
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

// --- cost --------------------------------------------------------------------

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

}  // namespace parts_test
}  // namespace tutti
