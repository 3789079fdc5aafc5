// Environments, locks, cancellation and containers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/time/clock.h"
#include "framework/base/block_cache.h"
#include "framework/base/callbacks.h"
#include "framework/base/digest.h"
#include "framework/base/ended_steps.h"
#include "framework/base/mutex.h"
#include "framework/base/number_map.h"
#include "framework/base/oldest_half.h"
#include "framework/base/peer_status.h"
#include "framework/base/rank_list.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

namespace tutti {
namespace base_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Not;
using ::testing::UnorderedElementsAre;

// Threads, clocks and alarms of the default environment, and the helpers for
// callbacks on them.

// Threads of this process. A joined thread may still be among them.
std::set<std::string> Threads() {
  std::set<std::string> threads;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/self/task")) {
    threads.insert(task.path().filename());
  }
  return threads;
}

// Number of threads that are not in `before`.
int NumNewThreads(const std::set<std::string>& before) {
  return static_cast<int>(absl::c_count_if(
      Threads(), [&](const auto& thread) { return !before.contains(thread); }));
}

// Values recorded by several threads.
template <typename T>
class Record {
 public:
  void Add(T value) {
    MutexLock lock(&mu_);
    values_.push_back(std::move(value));
  }
  std::vector<T> Get() {
    MutexLock lock(&mu_);
    return values_;
  }

 private:
  Mutex mu_;
  std::vector<T> values_ ABSL_GUARDED_BY(mu_);
};

TEST(WorkQueueTest, SaysHowManyThreadsItHas) {
  EXPECT_EQ(DefaultEnvironment(3).get().queue->num_workers(), 3);
  EXPECT_GE(DefaultEnvironment().get().queue->num_workers(), 1);
}

TEST(WorkQueueTest, RunsWorkOnceOnAnotherThread) {
  constexpr int kWorks = 100;
  DefaultEnvironment environment(/*num_workers=*/2);
  Record<std::thread::id> threads;
  BlockingCounter left(kWorks);
  for (int i = 0; i < kWorks; ++i) {
    environment.get().queue->Schedule([&] {
      threads.Add(std::this_thread::get_id());
      left.DecrementCount();
    });
  }
  left.Wait();
  EXPECT_THAT(threads.Get(), testing::SizeIs(kWorks));
  EXPECT_THAT(threads.Get(),
              Not(testing::Contains(std::this_thread::get_id())));
}

TEST(WorkQueueTest, BelowOneWorkerMeansSome) {
  DefaultEnvironment environment(/*num_workers=*/-1);
  BlockingCounter done(1);
  environment.get().queue->Schedule([&] { done.DecrementCount(); });
  done.Wait();
}

TEST(WorkQueueTest, TheDestructorRunsWhatIsQueued) {
  std::atomic<int> num_runs{0};
  BlockingCounter go(1);
  {
    DefaultEnvironment environment(/*num_workers=*/1);
    WorkQueue& queue = *environment.get().queue;
    queue.Schedule([&] { go.Wait(); });
    for (int i = 0; i < 100; ++i) {
      queue.Schedule([&] {
        ++num_runs;
        queue.Schedule([&] { ++num_runs; });
      });
    }
    EXPECT_EQ(num_runs, 0);
    go.DecrementCount();
  }
  EXPECT_EQ(num_runs, 200);
}

TEST(ClockTest, TimeGoesOn) {
  DefaultEnvironment environment(1);
  const absl::Time before = environment.get().clock->Now();
  EXPECT_GE(DefaultEnvironment(1).get().clock->Now(), before);
  EXPECT_GT(before, absl::FromUnixSeconds(1'000'000'000));
}

TEST(ClockTest, AlarmsRingInTheOrderOfTheirTimes) {
  DefaultEnvironment environment(1);
  Clock& clock = *environment.get().clock;
  const absl::Time past = clock.Now() - absl::Seconds(10);
  Record<int> rung;
  BlockingCounter is_busy(1);
  BlockingCounter all_are_set(1);
  BlockingCounter left(4);
  // Keeps the timer busy until all alarms are due.
  clock.CallAt(past, [&] {
    is_busy.DecrementCount();
    all_are_set.Wait();
  });
  is_busy.Wait();
  for (int seconds : {3, 1, 4, 2}) {
    clock.CallAt(past + absl::Seconds(seconds), [&, seconds] {
      rung.Add(seconds);
      left.DecrementCount();
    });
  }
  all_are_set.DecrementCount();
  left.Wait();
  EXPECT_THAT(rung.Get(), ElementsAre(1, 2, 3, 4));
}

TEST(ClockTest, AnAlarmRingsNotBeforeItsTimeAndNotInsideCallAt) {
  DefaultEnvironment environment(1);
  Clock& clock = *environment.get().clock;
  const absl::Time when = clock.Now() + absl::Milliseconds(2);
  absl::Time rung;
  std::thread::id thread;
  BlockingCounter left(1);
  clock.CallAt(when, [&] {
    rung = clock.Now();
    thread = std::this_thread::get_id();
    left.DecrementCount();
  });
  left.Wait();
  EXPECT_GE(rung, when);
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(ClockTest, AlarmsOfTheFarthestTimesAreKept) {
  DefaultEnvironment environment(1);
  Clock& clock = *environment.get().clock;
  BlockingCounter left(1);
  clock.CallAt(absl::InfiniteFuture(), [] { FAIL() << "that was soon"; });
  clock.CallAt(absl::InfinitePast(), [&] { left.DecrementCount(); });
  left.Wait();
}

TEST(ClockTest, ACancelledAlarmNeverRingsAndIsDestroyed) {
  DefaultEnvironment environment(1);
  Clock& clock = *environment.get().clock;
  auto held = std::make_shared<int>();
  const std::weak_ptr<int> alive = held;
  const auto id =
      clock.CallAt(clock.Now() + absl::Hours(1),
                   [held = std::move(held)] { FAIL() << "was cancelled"; });
  EXPECT_FALSE(alive.expired());
  EXPECT_TRUE(clock.Cancel(id));
  EXPECT_TRUE(alive.expired());
  EXPECT_FALSE(clock.Cancel(id));
}

TEST(ClockTest, ADueAlarmThatHasNotBegunCanBeCancelled) {
  DefaultEnvironment environment(1);
  Clock& clock = *environment.get().clock;
  BlockingCounter go(1);
  BlockingCounter begun(1);
  BlockingCounter after(1);
  clock.CallAt(absl::InfinitePast(), [&] {
    begun.DecrementCount();
    go.Wait();
  });
  begun.Wait();
  const auto id = clock.CallAt(clock.Now(), [] { FAIL() << "was cancelled"; });
  EXPECT_TRUE(clock.Cancel(id));
  clock.CallAt(clock.Now(), [&] { after.DecrementCount(); });
  go.DecrementCount();
  after.Wait();
}

TEST(ClockTest, CancellingAnAlarmThatRunsIsFalseAndDoesNotWait) {
  DefaultEnvironment environment(1);
  Clock& clock = *environment.get().clock;
  BlockingCounter begun(1);
  BlockingCounter go(1);
  BlockingCounter ended(1);
  const auto id = clock.CallAt(clock.Now(), [&] {
    begun.DecrementCount();
    go.Wait();
    ended.DecrementCount();
  });
  begun.Wait();
  EXPECT_FALSE(clock.Cancel(id));
  go.DecrementCount();
  ended.Wait();
  EXPECT_FALSE(clock.Cancel(id));
}

TEST(ClockTest, CancellingAnUnknownAlarmIsFalse) {
  DefaultEnvironment environment(1);
  EXPECT_FALSE(environment.get().clock->Cancel(0));
  EXPECT_FALSE(environment.get().clock->Cancel(17));
}

TEST(ClockTest, AnAlarmMayComeBackToTheClock) {
  DefaultEnvironment environment(1);
  Clock& clock = *environment.get().clock;
  BlockingCounter left(1);
  const auto other = clock.CallAt(absl::InfiniteFuture(), [] {});
  clock.CallAt(clock.Now(), [&] {
    EXPECT_TRUE(clock.Cancel(other));
    clock.CallAt(clock.Now(), [&] { left.DecrementCount(); });
  });
  left.Wait();
}

TEST(ClockTest, ManyAlarmsShareOneThreadThatStartsWithTheFirst) {
  constexpr int kAlarms = 1000;
  DefaultEnvironment environment(1);
  Clock& clock = *environment.get().clock;
  const std::set<std::string> before = Threads();
  Record<std::thread::id> threads;
  BlockingCounter left(kAlarms);
  for (int i = 0; i < kAlarms; ++i) {
    clock.CallAt(clock.Now(), [&] {
      threads.Add(std::this_thread::get_id());
      left.DecrementCount();
    });
    clock.CallAt(absl::InfiniteFuture(), [] {});
  }
  EXPECT_EQ(NumNewThreads(before), 1);
  left.Wait();
  const auto seen = threads.Get();
  EXPECT_EQ(std::set<std::thread::id>(seen.begin(), seen.end()).size(), 1u);
}

TEST(ClockTest, TheDestructorDropsAlarmsThatAreNotDue) {
  auto held = std::make_shared<int>();
  const std::weak_ptr<int> alive = held;
  {
    DefaultEnvironment environment(1);
    Clock& clock = *environment.get().clock;
    clock.CallAt(clock.Now() + absl::Hours(1),
                 [held = std::move(held)] { FAIL() << "not due"; });
  }
  EXPECT_TRUE(alive.expired());
}

// Calls a function on destruction.
class AtEnd {
 public:
  explicit AtEnd(std::function<void()> then) : then_(std::move(then)) {}
  ~AtEnd() { then_(); }
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;

 private:
  const std::function<void()> then_;
};

TEST(DefaultEnvironmentTest, WhatAlarmsHoldThatAreDroppedMayComeBack) {
  bool has_worked = false;
  {
    DefaultEnvironment environment(1);
    const Environment given = environment.get();
    const auto other = given.clock->CallAt(absl::InfiniteFuture(), [] {});
    auto held = std::make_shared<AtEnd>([&has_worked, given, other] {
      given.clock->Cancel(other);
      given.clock->CallAt(absl::InfinitePast(), [] { FAIL() << "rings"; });
      given.queue->Schedule([&has_worked] { has_worked = true; });
    });
    given.clock->CallAt(absl::InfiniteFuture(), [held = std::move(held)] {});
  }
  EXPECT_TRUE(has_worked);
}

// An alarm that sets itself again and schedules work, for ever.
class Heart {
 public:
  explicit Heart(const Environment& environment) : environment_(environment) {}

  void Beat() {
    environment_.queue->Schedule([this] {
      environment_.clock->CallAt(absl::InfiniteFuture(), [] {});
      ++num_beats_;
    });
    environment_.clock->CallAt(environment_.clock->Now(), [this] { Beat(); });
  }

  int num_beats() const { return num_beats_; }

 private:
  const Environment environment_;
  std::atomic<int> num_beats_{0};
};

TEST(DefaultEnvironmentTest, StartsNoThreadUntilThereIsWorkOrAnAlarm) {
  const std::set<std::string> before = Threads();
  DefaultEnvironment environment(/*num_workers=*/3);
  environment.get().clock->Now();
  environment.get().random->Next();
  EXPECT_EQ(NumNewThreads(before), 0);
  environment.get().queue->Schedule([] {});
  EXPECT_EQ(NumNewThreads(before), 3);
  environment.get().clock->CallAt(absl::InfiniteFuture(), [] {});
  EXPECT_EQ(NumNewThreads(before), 4);
}

TEST(DefaultEnvironmentTest, EndsWhileAlarmsAndWorkSetEachOther) {
  for (int round = 0; round < 100; ++round) {
    auto environment = std::make_unique<DefaultEnvironment>(1);
    Heart heart(environment->get());
    BlockingCounter begun(1);
    environment->get().clock->CallAt(absl::InfinitePast(), [&] {
      heart.Beat();
      begun.DecrementCount();
    });
    begun.Wait();
    environment.reset();
    EXPECT_GT(heart.num_beats(), 0);
  }
}

TEST(RandomTest, NumbersDifferBetweenCallsAndEnvironments) {
  DefaultEnvironment one(1);
  DefaultEnvironment other(1);
  std::set<uint64_t> numbers;
  for (int i = 0; i < 100; ++i) {
    numbers.insert(one.get().random->Next());
    numbers.insert(other.get().random->Next());
  }
  EXPECT_EQ(numbers.size(), 200u);
}

TEST(RandomTest, ThreadsMayDrawAtATime) {
  DefaultEnvironment environment(1);
  Record<uint64_t> drawn;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 100; ++j) {
        drawn.Add(environment.get().random->Next());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto numbers = drawn.Get();
  EXPECT_EQ(std::set<uint64_t>(numbers.begin(), numbers.end()).size(), 400u);
}

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

TEST(RunInTurnTest, WorkThatThrowsHoldsUpNoOther) {
  int num_runs = 0;
  const auto fail_twice = [&] {
    RunOnTrampoline([&] { throw std::runtime_error("second"); });
    RunOnTrampoline([&] { ++num_runs; });
    throw std::runtime_error("first");
  };
  EXPECT_THAT([&] { RunOnTrampoline(fail_twice); },
              testing::ThrowsMessage<std::runtime_error>("first"));
  EXPECT_EQ(num_runs, 1);
  RunOnTrampoline([&] { ++num_runs; });
  EXPECT_EQ(num_runs, 2);
}

TEST(RunAgainTest, AfterAnExceptionItRunsAgain) {
  RunAgain again;
  EXPECT_THAT([&] { again.Run([] { throw std::runtime_error("once"); }); },
              testing::ThrowsMessage<std::runtime_error>("once"));
  bool ran = false;
  again.Run([&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(PeerStatusTest, NoControlCharacterComesIn) {
  EXPECT_EQ(
      PeerStatus(absl::StatusCode::kAborted,
                 absl::string_view("\"a\"\n\r\0\x1b[2J\x7f \xc3\xa9", 14)),
      absl::AbortedError("\"a\"\\x0a\\x0d\\x00\\x1b[2J\\x7f \xc3\xa9"));
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
  EXPECT_EQ(ended.num_runs(), 0u);
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

}  // namespace base_test
}  // namespace tutti
