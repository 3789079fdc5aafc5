#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>
#include <vector>

#include "implementations/parts/binomial_tree.h"
#include "implementations/parts/double_tree.h"
#include "implementations/parts/halving.h"
#include "implementations/parts/rank_cube.h"

namespace tutti {
namespace shapes_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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
        EXPECT_EQ(std::abs(sent.first - kept.first),
                  sent.first < kept.first ? sent.count : kept.count);
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
    for (int rank = 0; rank < size; ++rank) {
      for (const int seat : halving.SeatsOf(rank)) {
        for (int dimension = halving.FirstDimension(rank);
             dimension < halving.cube().num_dimensions(); ++dimension) {
          const auto own = halving.ExchangeOf(rank, seat, dimension);
          const auto other = halving.ExchangeOf(
              own.peer, dimension < 0 ? 1 - seat : seat, dimension);
          EXPECT_EQ(other.peer, dimension < 0 ? rank : other.peer);
          EXPECT_EQ(other.kept.first, own.sent.first);
          EXPECT_EQ(other.kept.count, own.sent.count);
        }
      }
    }
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

}  // namespace shapes_test
}  // namespace tutti
