#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "framework/base/block_cache.h"
#include "framework/base/digest.h"
#include "framework/base/number_map.h"
#include "framework/base/oldest_half.h"
#include "framework/base/rank_list.h"
#include "tutti/environment.h"

namespace tutti {
namespace containers_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(BlockCacheTest, WhatIsGivenBackIsTakenAgain) {
  BlockCache<64, 2> cache;
  void* const block = cache.Take();
  cache.Give(block);
  EXPECT_EQ(cache.Take(), block);
  cache.Give(block);
}

// Blocks beyond the limit, or left at the end, would leak.
TEST(BlockCacheTest, KeepsNoMoreThanItMay) {
  BlockCache<64, 2> cache;
  std::vector<void*> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(cache.Take());
  for (void* const block : blocks) cache.Give(block);
  EXPECT_EQ(cache.Take(), blocks[0]);
  EXPECT_EQ(cache.Take(), blocks[1]);
  cache.Give(blocks[0]);
  cache.Give(blocks[1]);
}

TEST(BlockCacheTest, NoTwoThreadsHaveOneBlock) {
  constexpr int kNumThreads = 3;
  const DefaultEnvironment environment(kNumThreads);
  BlockCache<64, 2> cache;
  BlockingCounter ended{kNumThreads};
  for (int thread = 0; thread < kNumThreads; ++thread) {
    environment.get().queue->Schedule([&, thread] {
      for (int i = 0; i < 10'000; ++i) {
        auto* const block = static_cast<unsigned char*>(cache.Take());
        std::memset(block, thread, 64);
        for (int byte = 0; byte < 64; ++byte) ASSERT_EQ(block[byte], thread);
        cache.Give(block);
      }
      ended.DecrementCount();
    });
  }
  ended.Wait();
}

TEST(CachedAllocatorTest, SharedObjectsAreMadeAndEnded) {
  const auto ended = std::make_shared<int>(1);
  for (int i = 0; i < 100; ++i) {
    const auto object = std::allocate_shared<std::shared_ptr<int>>(
        CachedAllocator<std::shared_ptr<int>>(), ended);
    EXPECT_EQ(ended.use_count(), 2);
  }
  EXPECT_EQ(ended.use_count(), 1);
}

// A thread keeps blocks, and leaves them to the others when it ends.
TEST(CachedAllocatorTest, EveryThreadHasItsOwnBlocks) {
  using Block = std::array<unsigned char, 64>;
  constexpr int kNumThreads = 3;
  constexpr int kNumBlocks = 100;  // More than are kept.
  const DefaultEnvironment environment(kNumThreads);
  BlockingCounter ended{kNumThreads};
  for (int thread = 0; thread < kNumThreads; ++thread) {
    environment.get().queue->Schedule([&, thread] {
      CachedAllocator<Block> allocator;
      for (int round = 0; round < 100; ++round) {
        std::vector<Block*> blocks;
        for (int i = 0; i < kNumBlocks; ++i) {
          blocks.push_back(new (allocator.allocate(1)) Block());
          blocks.back()->fill(static_cast<unsigned char>(thread));
        }
        for (Block* const block : blocks) {
          for (const int byte : *block) ASSERT_EQ(byte, thread);
          allocator.deallocate(block, 1);
        }
      }
      ended.DecrementCount();
    });
  }
  ended.Wait();
}

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

TEST(OldestHalfTest, IsWhatWasUsedLongestAgo) {
  EXPECT_THAT(OldestHalf<std::string>({{8, "d"}, {2, "b"}, {1, "a"}, {5, "c"}}),
              UnorderedElementsAre("a", "b"));
}

TEST(OldestHalfTest, IsRoundedUp) {
  EXPECT_THAT(OldestHalf<int>({{3, 30}, {1, 10}, {2, 20}}),
              UnorderedElementsAre(10, 20));
  EXPECT_THAT(OldestHalf<int>({{3, 30}}), ElementsAre(30));
}

TEST(OldestHalfTest, OfNothingIsNothing) {
  EXPECT_THAT(OldestHalf<int>({}), IsEmpty());
}

TEST(OldestHalfTest, OfEqualAgesIsAnyHalf) {
  EXPECT_EQ(OldestHalf<int>({{1, 1}, {1, 2}, {1, 3}, {1, 4}}).size(), 2u);
}

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

uint64_t Digest(const std::vector<int64_t>& numbers) {
  return DigestOf(numbers);
}

TEST(DigestTest, DiffersWhereNumbersOrTheirOrderDo) {
  EXPECT_NE(Digest({1, 2}), Digest({2, 1}));
  EXPECT_NE(Digest({1, 2}), Digest({1, 3}));
  EXPECT_NE(Digest({1, 2}), Digest({1, 2, 0}));
  EXPECT_NE(Digest({}), Digest({0}));
}

// Fixed values, because processes compare digests.
TEST(DigestTest, IsTheSameInEveryProcess) {
  EXPECT_EQ(Digest({1, 2}), uint64_t{0xbcd9dbb49673066b});
}

}  // namespace containers_test
}  // namespace tutti
