#include "remote/mpi/messages/doorbell.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/time/time.h"

namespace tutti {
namespace doorbell_test {

TEST(DoorbellTest, ARingBeforeSleepEndsIt) {
  Doorbell bell;
  bell.PrepareToSleep();
  bell.Ring();
  EXPECT_TRUE(bell.SleepUnlessRung(absl::Hours(1)));
}

TEST(DoorbellTest, ARingWhileAwakeIsNotKept) {
  Doorbell bell;
  bell.Ring();
  bell.PrepareToSleep();
  EXPECT_FALSE(bell.SleepUnlessRung(absl::Milliseconds(1)));
  bell.PrepareToSleep();
  bell.StayAwake();
}

// Two threads pass a number back and forth. A lost ring would make them sleep
// for an hour.
TEST(DoorbellTest, NoRingIsLost) {
  constexpr int kNumTurns = 20'000;
  Doorbell bells[2];
  std::atomic<int> turn{0};
  const auto play = [&](int side) {
    for (int wanted = side; wanted < kNumTurns; wanted += 2) {
      while (turn.load() != wanted) {
        bells[side].PrepareToSleep();
        if (turn.load() == wanted) {
          bells[side].StayAwake();
        } else {
          bells[side].SleepUnlessRung(absl::Hours(1));
        }
      }
      turn.store(wanted + 1);
      bells[1 - side].Ring();
    }
  };
  std::thread other([&] { play(1); });
  play(0);
  other.join();
  EXPECT_EQ(turn.load(), kNumTurns);
}

}  // namespace doorbell_test
}  // namespace tutti
