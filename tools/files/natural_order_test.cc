#include "tools/files/natural_order.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tutti {
namespace natural_order_test {

TEST(NaturalLessTest, OrdersNumbersByValue) {
  std::vector<std::string> names = {"rank10", "rank2", "rank1", "rank100"};
  std::sort(names.begin(), names.end(), NaturalLess);
  EXPECT_EQ(names,
            (std::vector<std::string>{"rank1", "rank2", "rank10", "rank100"}));
}

TEST(NaturalLessTest, ComparesEveryNumberOfAName) {
  EXPECT_TRUE(NaturalLess("step2/rank10.npy", "step10/rank2.npy"));
  EXPECT_TRUE(NaturalLess("step2/rank2.npy", "step2/rank10.npy"));
}

TEST(NaturalLessTest, NumbersOfAnyLengthWork) {
  const std::string nines(50, '9');
  EXPECT_TRUE(NaturalLess("r" + nines, "r1" + std::string(50, '0')));
  EXPECT_FALSE(NaturalLess("r1" + std::string(50, '0'), "r" + nines));
}

TEST(NaturalLessTest, IsAStrictTotalOrder) {
  const std::vector<std::string> ordered = {
      "", "0", "00", "01", "1", "1a", "9", "10", "a", "a0", "a00", "a1", "aa"};
  for (size_t i = 0; i < ordered.size(); ++i) {
    for (size_t j = 0; j < ordered.size(); ++j) {
      EXPECT_EQ(NaturalLess(ordered[i], ordered[j]), i < j)
          << ordered[i] << " " << ordered[j];
    }
  }
}

TEST(NaturalLessTest, BytesOutsideAsciiAreOrdinary) {
  EXPECT_TRUE(NaturalLess("a", "\xC3\xA9"));
  EXPECT_FALSE(NaturalLess("\xC3\xA9", "a"));
}

}  // namespace natural_order_test
}  // namespace tutti
