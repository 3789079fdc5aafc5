#include "framework/base/block_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "tutti/environment.h"

namespace tutti {
namespace block_cache_test {

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

}  // namespace block_cache_test
}  // namespace tutti
