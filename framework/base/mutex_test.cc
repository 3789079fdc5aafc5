#include "framework/base/mutex.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "tutti/environment.h"

namespace tutti {
namespace mutex_test {

TEST(MutexTest, OneAtATimeHoldsIt) {
  constexpr int kNumThreads = 4;
  constexpr int64_t kNumRounds = 20'000;
  const DefaultEnvironment environment(kNumThreads);
  Mutex mu;
  int64_t count = 0;
  BlockingCounter ended{kNumThreads};
  for (int i = 0; i < kNumThreads; ++i) {
    environment.get().queue->Schedule([&] {
      for (int64_t round = 0; round < kNumRounds; ++round) {
        MutexLock lock(&mu);
        ++count;
      }
      ended.DecrementCount();
    });
  }
  ended.Wait();
  EXPECT_EQ(count, kNumThreads * kNumRounds);
}

// Holds the lock longer than a thread spins before it sleeps.
TEST(MutexTest, WhoSleepsIsWoken) {
  const DefaultEnvironment environment(1);
  Mutex mu;
  BlockingCounter tries{1};
  BlockingCounter ended{1};
  bool is_released = false;
  mu.Lock();
  environment.get().queue->Schedule([&] {
    tries.DecrementCount();
    {
      MutexLock lock(&mu);
      EXPECT_TRUE(is_released);
    }
    ended.DecrementCount();
  });
  tries.Wait();
  // Takes some milliseconds, in which the other thread stops spinning.
  for (int i = 0; i < 1'000'000; ++i) {
    static_cast<void>(environment.get().clock->Now());
  }
  is_released = true;
  mu.Unlock();
  ended.Wait();
}

}  // namespace mutex_test
}  // namespace tutti
