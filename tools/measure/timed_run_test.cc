#include "tools/measure/timed_run.h"

#include <utility>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace timed_run_test {

class FakeClock : public Clock {
 public:
  absl::Time Now() override { return now_; }
  AlarmId CallAt(absl::Time, Work) override { return 0; }
  bool Cancel(AlarmId) override { return false; }
  void Advance(absl::Duration by) { now_ += by; }

 private:
  absl::Time now_ = absl::UnixEpoch();
};

// Collects a number of calls, then ends all of them, the first one last. Each
// start and each end takes a second.
class FakeExecutor {
 public:
  FakeExecutor(size_t num_calls, FakeClock* clock)
      : num_calls_(num_calls), clock_(clock) {}

  void ExecuteAsync(StatusCallback done) {
    clock_->Advance(absl::Seconds(1));
    waiting_.push_back(std::move(done));
    if (waiting_.size() < num_calls_) return;
    while (!waiting_.empty()) {
      clock_->Advance(absl::Seconds(1));
      const bool fails = waiting_.size() == 2 && fails_;
      std::move(waiting_.back())(fails ? absl::AbortedError("the second")
                                       : absl::OkStatus());
      waiting_.pop_back();
    }
  }

  void FailTheSecond() { fails_ = true; }

 private:
  const size_t num_calls_;
  FakeClock* const clock_;
  bool fails_ = false;
  std::vector<StatusCallback> waiting_;
};

absl::StatusOr<absl::Duration> RunThree(FakeExecutor* executor,
                                        FakeClock* clock) {
  return TimedRun(
      [executor](CollectiveArgs, StatusCallback done) {
        executor->ExecuteAsync(std::move(done));
      },
      clock, std::vector<CollectiveArgs>(3));
}

TEST(TimedRunTest, TakesTheTimeOfTheSlowestRank) {
  FakeClock clock;
  FakeExecutor executor(3, &clock);
  const auto time = RunThree(&executor, &clock);
  ASSERT_THAT(time, IsOk());
  EXPECT_EQ(*time, absl::Seconds(6));
}

TEST(TimedRunTest, OneFailureIsTheResult) {
  FakeClock clock;
  FakeExecutor executor(3, &clock);
  executor.FailTheSecond();
  const auto time = RunThree(&executor, &clock);
  EXPECT_EQ(time.status().message(), "the second");
}

}  // namespace timed_run_test
}  // namespace tutti
