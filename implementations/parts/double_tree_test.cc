#include "implementations/parts/double_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "implementations/parts/binomial_tree.h"

namespace tutti {
namespace double_tree_test {

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

}  // namespace double_tree_test
}  // namespace tutti
