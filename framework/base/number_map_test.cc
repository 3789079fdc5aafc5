#include "framework/base/number_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace tutti {
namespace number_map_test {

using testing::ElementsAre;
using testing::IsEmpty;

using Map = NumberMap<std::shared_ptr<int>>;

std::vector<int> ValuesOf(const Map& map) {
  std::vector<int> values;
  for (const auto& value : map.Values()) values.push_back(*value);
  return values;
}

TEST(NumberMapTest, ValuesAreInTheOrderOfTheirNumbers) {
  Map map;
  EXPECT_TRUE(map.empty());
  for (const uint64_t number : {3u, 9u, 1u, 5u}) {
    map[number] = std::make_shared<int>(static_cast<int>(number));
  }
  EXPECT_THAT(ValuesOf(map), ElementsAre(1, 3, 5, 9));
  EXPECT_FALSE(map.empty());
}

TEST(NumberMapTest, WhatIsTakenIsGone) {
  Map map;
  map[4] = std::make_shared<int>(4);
  EXPECT_EQ(*map.Take(4), 4);
  EXPECT_EQ(map.Take(4), nullptr);
  EXPECT_EQ(map.Find(4), nullptr);
  EXPECT_TRUE(map.empty());
  map[4] = std::make_shared<int>(5);
  EXPECT_THAT(ValuesOf(map), ElementsAre(5));
}

TEST(NumberMapTest, AnUnknownNumberHasNothing) {
  Map map;
  map[4] = std::make_shared<int>(4);
  EXPECT_EQ(map.Find(3), nullptr);
  EXPECT_EQ(map.Find(5), nullptr);
  EXPECT_EQ(map.Take(5), nullptr);
  EXPECT_EQ(map[5], nullptr);
}

TEST(NumberMapTest, HoldsWhatAnOrdinaryMapHolds) {
  std::mt19937 generator(1);
  Map map;
  std::map<uint64_t, int> expected;
  for (int i = 0; i < 20'000; ++i) {
    // Stays near the number of calls, like execution numbers.
    const uint64_t number = static_cast<uint64_t>(i) / 4 + generator() % 50;
    if (generator() % 2 == 0) {
      map[number] = std::make_shared<int>(i);
      expected[number] = i;
    } else {
      EXPECT_EQ(map.Take(number) != nullptr, expected.erase(number) > 0);
    }
    if (i % 1000 != 0) continue;
    std::vector<int> values;
    for (const auto& [key, value] : expected) values.push_back(value);
    EXPECT_EQ(ValuesOf(map), values);
  }
  for (uint64_t number = 0; number < 20'000; ++number) map.Take(number);
  EXPECT_THAT(ValuesOf(map), IsEmpty());
}

}  // namespace number_map_test
}  // namespace tutti
