#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "framework/base/ended_steps.h"
#include "framework/base/mutex.h"
#include "framework/base/trampoline.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

namespace tutti {
namespace threads_test {

using ::testing::ElementsAre;

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

class CancellationTest : public testing::Test {
 protected:
  Cancellation::Watcher Record() {
    return [this](const absl::Status& status) { seen_.push_back(status); };
  }

  Cancellation cancellation_;
  std::vector<absl::Status> seen_;
};

TEST_F(CancellationTest, IsOkUntilCancelled) {
  EXPECT_FALSE(cancellation_.cancelled());
  EXPECT_THAT(cancellation_.status(), IsOk());
  cancellation_.Cancel(absl::AbortedError("why"));
  EXPECT_TRUE(cancellation_.cancelled());
  EXPECT_EQ(cancellation_.status(), absl::AbortedError("why"));
}

TEST_F(CancellationTest, TheFirstReasonStays) {
  cancellation_.Cancel(absl::AbortedError("first"));
  cancellation_.Cancel(absl::InternalError("second"));
  EXPECT_EQ(cancellation_.status(), absl::AbortedError("first"));
}

TEST_F(CancellationTest, OkIsTakenAsCancelled) {
  cancellation_.Watch(Record());
  cancellation_.Cancel(absl::OkStatus());
  EXPECT_EQ(cancellation_.status().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(seen_, ElementsAre(cancellation_.status()));
}

TEST_F(CancellationTest, EveryWatcherRunsOnceWithTheReason) {
  EXPECT_NE(cancellation_.Watch(Record()), 0u);
  EXPECT_NE(cancellation_.Watch(Record()), 0u);
  cancellation_.Cancel(absl::AbortedError("why"));
  cancellation_.Cancel(absl::AbortedError("again"));
  EXPECT_THAT(
      seen_, ElementsAre(absl::AbortedError("why"), absl::AbortedError("why")));
}

TEST_F(CancellationTest, AWatcherThatComesLateRunsInsideWatch) {
  cancellation_.Cancel(absl::AbortedError("why"));
  EXPECT_EQ(cancellation_.Watch(Record()), 0u);
  EXPECT_THAT(seen_, ElementsAre(absl::AbortedError("why")));
}

TEST_F(CancellationTest, AnUnwatchedWatcherNeverRunsAndIsDestroyed) {
  auto held = std::make_shared<int>();
  const std::weak_ptr<int> alive = held;
  const auto id = cancellation_.Watch(
      [this, held = std::move(held)](const absl::Status& status) {
        seen_.push_back(status);
      });
  EXPECT_FALSE(alive.expired());
  cancellation_.Unwatch(id);
  EXPECT_TRUE(alive.expired());
  cancellation_.Cancel(absl::AbortedError("why"));
  EXPECT_TRUE(seen_.empty());
}

TEST_F(CancellationTest, UnwatchIgnoresUnknownIds) {
  cancellation_.Unwatch(0);
  cancellation_.Unwatch(17);
  const auto id = cancellation_.Watch(Record());
  cancellation_.Unwatch(id + 1);
  cancellation_.Cancel(absl::AbortedError("why"));
  cancellation_.Unwatch(id);
  EXPECT_EQ(seen_.size(), 1u);
}

// Watchers that call back would block for ever if Cancel() held a lock.
TEST_F(CancellationTest, WatchersMayComeBackToTheCancellation) {
  const auto other = cancellation_.Watch([](const absl::Status&) {});
  cancellation_.Watch([this, other](const absl::Status& reason) {
    EXPECT_TRUE(cancellation_.cancelled());
    EXPECT_EQ(cancellation_.status(), reason);
    cancellation_.Cancel(absl::InternalError("late"));
    cancellation_.Unwatch(other);
    EXPECT_EQ(cancellation_.Watch(Record()), 0u);
  });
  cancellation_.Cancel(absl::AbortedError("why"));
  EXPECT_THAT(seen_, ElementsAre(absl::AbortedError("why")));
}

TEST_F(CancellationTest, AWatcherMayEndTheCancellation) {
  auto owned = std::make_unique<Cancellation>();
  int num_runs = 0;
  for (int i = 0; i < 3; ++i) {
    owned->Watch([&](const absl::Status&) {
      owned.reset();
      ++num_runs;
    });
  }
  owned->Cancel(absl::AbortedError("why"));
  EXPECT_EQ(num_runs, 3);
}

TEST_F(CancellationTest, WatchersRunOnceHoweverThreadsMeet) {
  constexpr int kWatchers = 200;
  for (int round = 0; round < 20; ++round) {
    Cancellation cancellation;
    std::array<std::atomic<int>, kWatchers> runs{};
    std::vector<std::thread> threads;
    for (int half = 0; half < 2; ++half) {
      threads.emplace_back([&, half] {
        for (int i = half; i < kWatchers; i += 2) {
          const auto id =
              cancellation.Watch([&runs, i](const absl::Status& reason) {
                EXPECT_THAT(reason, IsAborted("reason"));
                ++runs[i];
              });
          // Unwatches half of the watchers; they may have run before.
          if (half == 1) cancellation.Unwatch(id);
        }
      });
    }
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back(
          [&] { cancellation.Cancel(absl::AbortedError("reason")); });
    }
    for (std::thread& thread : threads) thread.join();
    for (int i = 0; i < kWatchers; ++i) {
      EXPECT_LE(runs[i], 1);
      EXPECT_TRUE(i % 2 == 1 || runs[i] == 1) << i;
    }
  }
}

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

TEST(RunInTurnTest, RunsInsideTheCall) {
  bool ran = false;
  RunOnTrampoline([&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(RunInTurnTest, WhatWorkAddsRunsAfterItInOrder) {
  std::vector<int> order;
  RunOnTrampoline([&] {
    RunOnTrampoline([&] {
      order.push_back(2);
      RunOnTrampoline([&] { order.push_back(4); });
    });
    RunOnTrampoline([&] { order.push_back(3); });
    order.push_back(1);
  });
  EXPECT_THAT(order, ElementsAre(1, 2, 3, 4));
}

void CountDown(int* left) {
  RunOnTrampoline([left] {
    if (--*left > 0) CountDown(left);
  });
}

TEST(RunInTurnTest, ALongChainNeedsNoStack) {
  int left = 1000000;
  CountDown(&left);
  EXPECT_EQ(left, 0);
}

TEST(EndedStepsTest, AStepSequenceTakesOneEntry) {
  EndedSteps ended;
  EXPECT_TRUE(ended.empty());
  for (int64_t step = 100; step < 10'100; ++step) ended.Add(step);
  EXPECT_EQ(ended.num_runs(), 1u);
  EXPECT_FALSE(ended.Contains(99));
  EXPECT_TRUE(ended.Contains(100));
  EXPECT_TRUE(ended.Contains(10'099));
  EXPECT_FALSE(ended.Contains(10'100));
}

TEST(EndedStepsTest, AddingAnIdTwiceChangesNothing) {
  EndedSteps ended;
  for (int i = 0; i < 2; ++i) ended.Add(7);
  EXPECT_TRUE(ended.Contains(7));
  EXPECT_EQ(ended.num_runs(), 1u);
}

TEST(EndedStepsTest, TakesTheLeastAndTheLargestId) {
  using Limits = std::numeric_limits<int64_t>;
  EndedSteps ended;
  for (const int64_t step : {Limits::max(), Limits::min(), int64_t{-1}}) {
    ended.Add(step);
    EXPECT_TRUE(ended.Contains(step));
  }
  EXPECT_FALSE(ended.Contains(0));
}

// None of these ids follow one another.
TEST(EndedStepsTest, RemembersTheRunsThatWereBegunLast) {
  constexpr int64_t kMaxRuns = 3;
  EndedSteps ended(kMaxRuns);
  for (int64_t i = 0; i < 100; ++i) {
    ended.Add(10 * i);
    EXPECT_LT(ended.num_runs(), 2u * kMaxRuns);
    for (int64_t kept = std::max<int64_t>(0, i - kMaxRuns + 1); kept <= i;
         ++kept) {
      EXPECT_TRUE(ended.Contains(10 * kept)) << kept << " after " << i;
    }
  }
  EXPECT_FALSE(ended.Contains(0));
}

TEST(EndedStepsTest, TheErrorNamesTheStep) {
  EXPECT_THAT(StepHasEndedError(7), IsAborted("step 7"));
}

}  // namespace threads_test
}  // namespace tutti
