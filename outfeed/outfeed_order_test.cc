// Tests the order of a million items of four devices with random delays of the
// callbacks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "outfeed/outfeed_testing.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace outfeed_order_test {

constexpr int kNumDevices = 4;
constexpr int kNumItems = 1'000'000;  // All devices together.

// Delays the begin of every work by up to 100 us.
class LateQueue : public WorkQueue {
 public:
  explicit LateQueue(const Environment& environment)
      : environment_(environment) {}
  void Schedule(Work work) override {
    environment_.clock->CallAt(
        environment_.clock->Now() +
            absl::Microseconds(environment_.random->Next() % 100),
        std::move(work));
  }
  int num_workers() const override { return environment_.queue->num_workers(); }

 private:
  const Environment environment_;
};

class OutfeedOrderTest : public testing::TestWithParam<int64_t> {};

TEST_P(OutfeedOrderTest, IsThatOfTheDevice) {
  SimulatedEnvironment environment(/*seed=*/7);
  LateQueue queue(environment.get());
  OutfeedJob job(kNumDevices, {&queue, environment.get().clock, nullptr});
  job.Create(/*max_queued_bytes=*/GetParam());
  ASSERT_THAT(job.receiver->Start(), IsOk());
  std::vector<OutfeedSender> senders;
  for (int i = 0; i < kNumDevices; ++i) senders.push_back(job.sender(i));
  std::vector<int32_t> num_sent(kNumDevices);
  std::vector<int> num_waiting(kNumDevices);
  Random& random = *environment.get().random;
  for (int i = 0; i < kNumItems; ++i) {
    const size_t device = random.Next() % kNumDevices;
    while (num_waiting[device] > 0) environment.Advance(absl::Microseconds(10));
    ++num_waiting[device];
    senders[device].Send(OutfeedJob::kNumberId, {Number(num_sent[device]++)},
                         [&waiting = num_waiting[device]](absl::Status status) {
                           EXPECT_THAT(status, IsOk());
                           --waiting;
                         });
    if (random.Next() % 50 == 0) environment.Advance(absl::Microseconds(10));
  }
  Outcome outcome;
  job.receiver->Shutdown(outcome.Done());
  environment.Advance(absl::Hours(1));
  EXPECT_EQ(outcome.num_calls, 1);
  EXPECT_THAT(outcome.status, IsOk());
  for (int device = 0; device < kNumDevices; ++device) {
    const std::vector<int32_t>& numbers = job.numbers[device];
    ASSERT_EQ(numbers.size(), static_cast<size_t>(num_sent[device]));
    int num_wrong = 0;
    for (size_t i = 0; i < numbers.size(); ++i) {
      num_wrong += numbers[i] != static_cast<int32_t>(i);
    }
    EXPECT_EQ(num_wrong, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Limits, OutfeedOrderTest,
                         testing::Values(64, int64_t{256} << 20));

}  // namespace outfeed_order_test
}  // namespace tutti
