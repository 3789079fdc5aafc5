#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "tutti/environment.h"

namespace tutti {
namespace blocking_counter_test {

TEST(BlockingCounterTest, WaitReturnsAtOnceIfThereIsNothingToWaitFor) {
  BlockingCounter counter(0);
  counter.Wait();
}

TEST(BlockingCounterTest, WhatWasDoneBeforeACountIsSeenAfterTheWait) {
  constexpr int kThreads = 4;
  BlockingCounter counter(kThreads);
  std::vector<int> written(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&counter, &value = written[i]] {
      value = 1;
      counter.DecrementCount();
    });
  }
  counter.Wait();
  EXPECT_EQ(written, std::vector<int>(kThreads, 1));
  for (std::thread& thread : threads) thread.join();
}

TEST(BlockingCounterTest, MayBeDestroyedAsSoonAsWaitReturns) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 200; ++i) {
    auto counter = std::make_unique<BlockingCounter>(1);
    threads.emplace_back(
        [target = counter.get()] { target->DecrementCount(); });
    counter->Wait();
    counter.reset();
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace blocking_counter_test
}  // namespace tutti
