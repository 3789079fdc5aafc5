#include "implementations/parts/halving_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "implementations/parts/binomial_tree.h"

namespace tutti {
namespace halving_tree_test {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int kMaxSize = 130;

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

}  // namespace halving_tree_test
}  // namespace tutti
