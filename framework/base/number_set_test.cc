#include "framework/base/number_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <vector>

namespace tutti {
namespace number_set_test {

TEST(NumberSetTest, IsEmptyAtFirst) {
  EXPECT_FALSE(NumberSet().Contains(0));
  EXPECT_EQ(NumberSet().num_runs(), 0u);
}

TEST(NumberSetTest, ContainsWhatWasInsertedInAnyOrder) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    NumberSet numbers;
    std::set<uint64_t> expected;
    for (int i = 0; i < 40; ++i) {
      const uint64_t number = random() % 60;
      numbers.Insert(number);
      expected.insert(number);
      for (uint64_t other = 0; other < 61; ++other) {
        ASSERT_EQ(numbers.Contains(other), expected.contains(other));
        uint64_t missing = other;
        while (expected.contains(missing)) ++missing;
        ASSERT_EQ(numbers.FirstMissing(other), missing);
      }
    }
  }
}

TEST(NumberSetTest, ConsecutiveNumbersAreOneRunInWhateverOrderTheyCame) {
  std::vector<uint64_t> order(100);
  std::iota(order.begin(), order.end(), 7);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  NumberSet numbers;
  for (uint64_t number : order) numbers.Insert(number);
  EXPECT_EQ(numbers.num_runs(), 1u);
  EXPECT_FALSE(numbers.Contains(6));
  EXPECT_FALSE(numbers.Contains(107));
}

TEST(NumberSetTest, NumbersApartAreRunsOfTheirOwn) {
  NumberSet numbers;
  for (uint64_t number : {5, 1, 3}) numbers.Insert(number);
  EXPECT_EQ(numbers.num_runs(), 3u);
  numbers.Insert(2);
  EXPECT_EQ(numbers.num_runs(), 2u);
  numbers.Insert(4);
  EXPECT_EQ(numbers.num_runs(), 1u);
}

TEST(NumberSetTest, TheLargestNumberIsNotBeforeTheSmallest) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  for (const auto& order : {std::vector<uint64_t>{kMax, 0}, {0, kMax}}) {
    NumberSet numbers;
    for (uint64_t number : order) numbers.Insert(number);
    EXPECT_EQ(numbers.num_runs(), 2u);
    EXPECT_TRUE(numbers.Contains(0));
    EXPECT_TRUE(numbers.Contains(kMax));
    EXPECT_FALSE(numbers.Contains(1));
    EXPECT_FALSE(numbers.Contains(kMax - 1));
  }
}

}  // namespace number_set_test
}  // namespace tutti
