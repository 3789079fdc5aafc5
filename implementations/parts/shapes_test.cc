#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "implementations/parts/binomial_tree.h"
#include "implementations/parts/double_tree.h"
#include "implementations/parts/halving_tree.h"
#include "implementations/parts/rank_cube.h"

namespace tutti {
namespace shapes_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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

TEST(HalvingTreesTest, LookLikeThePicture) {
  const HalvingTrees trees(4);
  EXPECT_EQ(trees.PlaceOf(0, 0).parent, -1);
  EXPECT_THAT(trees.PlaceOf(0, 0).children, ElementsAre(1, 2));
  EXPECT_THAT(trees.PlaceOf(1, 1).children, ElementsAre(0, 3));
  EXPECT_THAT(trees.PlaceOf(2, 2).children, ElementsAre(3, 0));
  EXPECT_EQ(trees.PlaceOf(0, 2).parent, 2);
  EXPECT_THAT(trees.PlaceOf(0, 2).children, ElementsAre(1));
  EXPECT_EQ(trees.PlaceOf(2, 1).parent, 3);
  EXPECT_THAT(trees.PlaceOf(2, 1).children, IsEmpty());
}

TEST(HalvingTreesTest, ParentsAndChildrenAgree) {
  for (int size = 1; size <= kMaxSize; ++size) {
    const HalvingTrees trees(size);
    for (int block = 0; block < size; ++block) {
      std::vector<int> parents(size, -1);
      for (int rank = 0; rank < size; ++rank) {
        for (int child : trees.PlaceOf(rank, block).children) {
          EXPECT_EQ(parents[child], -1) << child << " has two parents";
          parents[child] = rank;
        }
      }
      for (int rank = 0; rank < size; ++rank) {
        EXPECT_EQ(trees.PlaceOf(rank, block).parent, parents[rank]);
        EXPECT_EQ(parents[rank] < 0, rank == block);
      }
    }
  }
}

TEST(HalvingTreesTest, BlocksThatTravelTogetherAreConsecutive) {
  for (int size = 1; size <= kMaxSize; ++size) {
    const HalvingTrees trees(size);
    const RankCube& cube = trees.cube();
    int first = 0;
    for (const int seat : {0, 1}) {
      EXPECT_EQ(trees.BlocksOf(0, 0, seat).first, first);
      first += trees.BlocksOf(0, 0, seat).count;
      for (int dimension = 0; dimension < cube.num_dimensions(); ++dimension) {
        const int bit = 1 << dimension;
        for (int corner = 0; corner < bit; ++corner) {
          const auto all = trees.BlocksOf(corner, dimension, seat);
          const auto low = trees.BlocksOf(corner, dimension + 1, seat);
          const auto high = trees.BlocksOf(corner | bit, dimension + 1, seat);
          EXPECT_EQ(low.first, all.first);
          EXPECT_EQ(high.first, low.first + low.count);
          EXPECT_EQ(high.count, all.count - low.count);
        }
      }
    }
    EXPECT_EQ(first, size);
    for (int block = 0; block < size; ++block) {
      EXPECT_EQ(trees
                    .BlocksOf(cube.CornerOf(block), cube.num_dimensions(),
                              trees.SeatFor(block))
                    .count,
                1);
    }
  }
}

TEST(HalvingTreesTest, NobodyReceivesMuchMoreThanOthers) {
  for (int size = 1; size <= kMaxSize; ++size) {
    const HalvingTrees trees(size);
    const bool is_cube = size == 1 << CeilLog2(size);
    for (int rank = 0; rank < size; ++rank) {
      int received = 0;
      for (int block = 0; block < size; ++block) {
        received +=
            static_cast<int>(trees.PlaceOf(rank, block).children.size());
      }
      EXPECT_LE(received, size - 1 + (is_cube ? 0 : CeilLog2(size) - 1))
          << "rank " << rank << " of " << size;
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

}  // namespace shapes_test
}  // namespace tutti
