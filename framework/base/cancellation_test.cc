#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

namespace tutti {
namespace cancellation_test {

using testing::ElementsAre;
using testing::HasSubstr;

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
                EXPECT_THAT(reason, StatusIs(absl::StatusCode::kAborted,
                                             HasSubstr("reason")));
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

}  // namespace cancellation_test
}  // namespace tutti
