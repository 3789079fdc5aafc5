#include "tests/conformance/pair_cover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

namespace tutti::conformance {
namespace pair_cover_test {

class PairCoverTest : public testing::TestWithParam<std::vector<int>> {};

TEST_P(PairCoverTest, EveryPairOfChoicesIsInARow) {
  const std::vector<int>& sizes = GetParam();
  const auto rows = PairCover(sizes);
  for (size_t a = 0; a < sizes.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      std::set<std::pair<int, int>> pairs;
      for (const auto& row : rows) pairs.insert({row[a], row[b]});
      EXPECT_EQ(pairs.size(), static_cast<size_t>(sizes[a] * sizes[b]))
          << "dimensions " << b << " and " << a;
    }
  }
}

TEST_P(PairCoverTest, EveryRowHasOneOfTheChoicesOfEachDimension) {
  const std::vector<int>& sizes = GetParam();
  for (const auto& row : PairCover(sizes)) {
    ASSERT_EQ(row.size(), sizes.size());
    for (size_t d = 0; d < sizes.size(); ++d) {
      EXPECT_GE(row[d], 0);
      EXPECT_LT(row[d], sizes[d]);
    }
  }
}

// Half more than the two largest dimensions need.
TEST_P(PairCoverTest, RowsAreFewAndDifferAndAreInOrder) {
  std::vector<int> sizes = GetParam();
  const auto rows = PairCover(sizes);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
  EXPECT_EQ(std::adjacent_find(rows.begin(), rows.end()), rows.end());
  std::sort(sizes.rbegin(), sizes.rend());
  sizes.push_back(1);
  EXPECT_LE(rows.size(), static_cast<size_t>(sizes[0] * sizes[1] * 3 / 2));
}

TEST_P(PairCoverTest, TheSameSizesGiveTheSameRows) {
  EXPECT_EQ(PairCover(GetParam()), PairCover(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, PairCoverTest,
    testing::Values(std::vector<int>{1}, std::vector<int>{5},
                    std::vector<int>{1, 1, 1}, std::vector<int>{3, 4},
                    std::vector<int>{4, 1, 3}, std::vector<int>{2, 3, 3, 8},
                    std::vector<int>{12, 1, 1, 3, 3, 10},
                    std::vector<int>{12, 8, 1, 1, 3, 10},
                    std::vector<int>{12, 1, 4, 3, 3, 10}));

TEST(PairCoverOfOneDimensionTest, HasEachChoiceOnce) {
  EXPECT_THAT(PairCover({3}), testing::ElementsAre(testing::ElementsAre(0),
                                                   testing::ElementsAre(1),
                                                   testing::ElementsAre(2)));
}

TEST(AllRowsTest, EveryChoiceIsWithEveryOther) {
  EXPECT_THAT(AllRows({2, 1, 2}),
              testing::ElementsAre(testing::ElementsAre(0, 0, 0),
                                   testing::ElementsAre(0, 0, 1),
                                   testing::ElementsAre(1, 0, 0),
                                   testing::ElementsAre(1, 0, 1)));
}

}  // namespace pair_cover_test
}  // namespace tutti::conformance
