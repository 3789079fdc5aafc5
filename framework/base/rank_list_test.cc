#include "framework/base/rank_list.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace tutti {
namespace rank_list_test {

TEST(RankListTest, ListsTheRanksThatThereAre) {
  EXPECT_EQ(RankList({3}), "rank 3");
  EXPECT_EQ(RankList({0, 2, 5}), "ranks 0, 2, 5");
}

TEST(RankListTest, ListsEightRanksAndCountsTheOthers) {
  std::vector<int> ranks(65536);
  std::iota(ranks.begin(), ranks.end(), 0);
  EXPECT_EQ(RankList(absl::MakeSpan(ranks).first(8)),
            "ranks 0, 1, 2, 3, 4, 5, 6, 7");
  EXPECT_EQ(RankList(ranks), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 65528 more");
}

TEST(ShortListTest, AsksOnlyForTheItemsThatItLists) {
  size_t num_requested = 0;
  const auto item = [&](size_t index) {
    ++num_requested;
    return std::string(1, static_cast<char>('a' + index));
  };
  EXPECT_EQ(ShortList(0, item), "");
  EXPECT_EQ(ShortList(2, item), "a, b");
  num_requested = 0;
  EXPECT_EQ(ShortList(1000, item), "a, b, c, d, e, f, g, h and 992 more");
  EXPECT_EQ(num_requested, 8u);
}

}  // namespace rank_list_test
}  // namespace tutti
