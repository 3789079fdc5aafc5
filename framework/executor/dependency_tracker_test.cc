#include "framework/executor/dependency_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "framework/base/mutex.h"
#include "tutti/environment.h"

namespace tutti {
namespace dependency_tracker_test {

constexpr InstanceId kA = {1, 1};
constexpr InstanceId kB = {1, 2};
constexpr InstanceId kC = {2, 1};

class DependencyTrackerTest : public testing::Test {
 protected:
  void Launch(InstanceId id, uint64_t number = 0) {
    {
      MutexLock lock(&mu_);
      launched_.insert({id, number});
    }
    tracker_.Launched(id);
  }

  // Records the number of the call when it becomes ready.
  StatusCallback Record(int call) {
    return [this, call](absl::Status) { ready_.push_back(call); };
  }

  bool HasLaunched(InstanceId id, uint64_t number) {
    MutexLock lock(&mu_);
    return launched_.contains({id, number});
  }

  Mutex mu_;
  absl::flat_hash_set<std::pair<InstanceId, uint64_t>> launched_
      ABSL_GUARDED_BY(mu_);
  std::vector<int> ready_;
  Cancellation cancellation_;
  DependencyTracker tracker_{[this](InstanceId id, uint64_t number) {
    return HasLaunched(id, number);
  }};
};

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST_F(DependencyTrackerTest, WhoDependsOnNothingIsReadyAtOnce) {
  tracker_.WaitFor({}, 0, cancellation_, Record(1));
  EXPECT_THAT(ready_, ElementsAre(1));
}

TEST_F(DependencyTrackerTest, WhatWasLaunchedBeforeIsNotWaitedFor) {
  Launch(kA);
  Launch(kB);
  tracker_.WaitFor({kA, kB}, 0, cancellation_, Record(1));
  EXPECT_THAT(ready_, ElementsAre(1));
}

TEST_F(DependencyTrackerTest, ReadyRunsInsideTheLaunchThatWasMissing) {
  tracker_.WaitFor({kA}, 0, cancellation_, Record(1));
  EXPECT_THAT(ready_, IsEmpty());
  Launch(kA);
  EXPECT_THAT(ready_, ElementsAre(1));
  Launch(kA);
  EXPECT_THAT(ready_, ElementsAre(1));
}

TEST_F(DependencyTrackerTest, SeveralDependenciesAreAllWaitedForInAnyOrder) {
  Launch(kB);
  tracker_.WaitFor({kA, kB, kC}, 0, cancellation_, Record(1));
  Launch(kC);
  EXPECT_THAT(ready_, IsEmpty());
  Launch(kA);
  EXPECT_THAT(ready_, ElementsAre(1));
}

TEST_F(DependencyTrackerTest, ADependencyMayStandTwiceInTheList) {
  tracker_.WaitFor({kA, kB, kA, kA}, 0, cancellation_, Record(1));
  Launch(kA);
  EXPECT_THAT(ready_, IsEmpty());
  Launch(kB);
  EXPECT_THAT(ready_, ElementsAre(1));
  tracker_.WaitFor({kA, kA}, 0, cancellation_, Record(2));
  EXPECT_THAT(ready_, ElementsAre(1, 2));
}

TEST_F(DependencyTrackerTest, WaitsForTheExecutionOfItsOwnNumber) {
  Launch(kA, 0);
  tracker_.WaitFor({kA}, 1, cancellation_, Record(1));
  tracker_.WaitFor({kA}, 2, cancellation_, Record(2));
  EXPECT_THAT(ready_, IsEmpty());
  Launch(kA, 2);
  EXPECT_THAT(ready_, ElementsAre(2));
  Launch(kA, 1);
  EXPECT_THAT(ready_, ElementsAre(2, 1));
}

TEST_F(DependencyTrackerTest, OneLaunchMayMakeManyReady) {
  for (int call = 0; call < 4; ++call) {
    tracker_.WaitFor({kA}, 0, cancellation_, Record(call));
  }
  Launch(kA);
  EXPECT_THAT(ready_, UnorderedElementsAre(0, 1, 2, 3));
}

// Launch by one of two members, for example.
TEST_F(DependencyTrackerTest, ALaunchThatIsNotOfAllMembersWakesNobody) {
  tracker_.WaitFor({kA}, 0, cancellation_, Record(1));
  tracker_.Launched(kA);
  EXPECT_THAT(ready_, IsEmpty());
  Launch(kA);
  EXPECT_THAT(ready_, ElementsAre(1));
}

// Deadlocks if the tracker calls with its lock held.
TEST_F(DependencyTrackerTest, ReadyMayComeBackToTheTracker) {
  tracker_.WaitFor({kA}, 0, cancellation_, [this](absl::Status) {
    tracker_.WaitFor({kB}, 0, cancellation_, Record(2));
    Launch(kB);
    Record(1)(absl::OkStatus());
  });
  Launch(kA);
  EXPECT_THAT(ready_, UnorderedElementsAre(1, 2));
}

TEST_F(DependencyTrackerTest, ALongChainNeedsNoStack) {
  constexpr int kLength = 100'000;
  const auto link = [](int i) { return InstanceId{1, i}; };
  for (int i = 0; i < kLength; ++i) {
    tracker_.WaitFor({link(i)}, 0, cancellation_,
                     [this, next = link(i + 1)](absl::Status) {
                       ready_.push_back(0);
                       Launch(next);
                     });
  }
  Launch(link(0));
  EXPECT_EQ(ready_.size(), size_t{kLength});
}

TEST_F(DependencyTrackerTest, CancelledWaitEndsWithTheReasonAndLeavesNothing) {
  auto held = std::make_shared<int>();
  const std::weak_ptr<int> alive = held;
  absl::Status ended;
  tracker_.WaitFor({kA, kB, kA}, 0, cancellation_,
                   [held = std::move(held), &ended](absl::Status status) {
                     ended = std::move(status);
                   });
  cancellation_.Cancel(absl::AbortedError("enough"));
  EXPECT_EQ(ended, absl::AbortedError("enough"));
  EXPECT_TRUE(alive.expired());
  EXPECT_EQ(tracker_.num_waiting(), 0u);
  Launch(kA);
  Launch(kB);
}

TEST_F(DependencyTrackerTest, CancelledBeforeItWaitsEndsAtOnce) {
  cancellation_.Cancel(absl::AbortedError("enough"));
  absl::Status ended;
  tracker_.WaitFor({kA}, 0, cancellation_,
                   [&](absl::Status status) { ended = std::move(status); });
  EXPECT_EQ(ended, absl::AbortedError("enough"));
  EXPECT_EQ(tracker_.num_waiting(), 0u);
}

TEST_F(DependencyTrackerTest, WhatStillWaitsEndsWithTheTracker) {
  absl::Status ended;
  {
    DependencyTracker tracker([](InstanceId, uint64_t) { return false; });
    tracker.WaitFor({kA, kB}, 0, cancellation_,
                    [&](absl::Status status) { ended = std::move(status); });
    EXPECT_EQ(ended, absl::OkStatus());
  }
  EXPECT_EQ(ended.code(), absl::StatusCode::kCancelled);
  cancellation_.Cancel(absl::AbortedError("late"));
}

TEST_F(DependencyTrackerTest, LaunchAndCancellationEndAWaitOnce) {
  constexpr uint64_t kRounds = 500;
  for (uint64_t round = 0; round < kRounds; ++round) {
    Cancellation cancellation;
    std::atomic<int> num_ended{0};
    tracker_.WaitFor({kA}, round, cancellation,
                     [&](absl::Status) { ++num_ended; });
    std::thread launch([&] { Launch(kA, round); });
    cancellation.Cancel(absl::AbortedError("enough"));
    launch.join();
    EXPECT_EQ(num_ended, 1);
  }
  EXPECT_EQ(tracker_.num_waiting(), 0u);
}

TEST_F(DependencyTrackerTest, NoLaunchIsMissedHoweverItMeetsTheWait) {
  constexpr int kRounds = 500;
  std::vector<std::atomic<int>> num_ready(kRounds);
  std::atomic<int> round_of_launches{0};
  std::atomic<int> round_of_waits{0};
  // Keeps both threads in the same round.
  const auto meet = [](std::atomic<int>& mine, std::atomic<int>& other) {
    const int round = ++mine;
    while (other < round) std::this_thread::yield();
  };
  std::thread launches([&] {
    for (int round = 0; round < kRounds; ++round) {
      meet(round_of_launches, round_of_waits);
      Launch(kA, static_cast<uint64_t>(round));
      Launch(kB, static_cast<uint64_t>(round));
    }
  });
  std::thread waits([&] {
    for (int round = 0; round < kRounds; ++round) {
      meet(round_of_waits, round_of_launches);
      tracker_.WaitFor(
          {kB, kA}, static_cast<uint64_t>(round), cancellation_,
          [&num_ready, round](absl::Status) { ++num_ready[round]; });
    }
  });
  launches.join();
  waits.join();
  for (int round = 0; round < kRounds; ++round) {
    EXPECT_EQ(num_ready[round], 1) << "round " << round;
  }
}

}  // namespace dependency_tracker_test
}  // namespace tutti
