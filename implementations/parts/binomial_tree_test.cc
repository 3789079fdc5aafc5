#include "implementations/parts/binomial_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tutti {
namespace binomial_tree_test {

using testing::ElementsAre;
using testing::IsEmpty;

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

}  // namespace binomial_tree_test
}  // namespace tutti
