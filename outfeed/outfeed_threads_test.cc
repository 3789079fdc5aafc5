#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "outfeed/outfeed_testing.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

namespace tutti {
namespace outfeed_threads_test {

// Tests devices on several threads that send to one receiver.

constexpr int kNumDevices = 3;
constexpr int kNumItems = 20'000;  // Per device.

void ExpectInOrder(const std::vector<int32_t>& numbers) {
  int num_wrong = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    num_wrong += numbers[i] != static_cast<int32_t>(i);
  }
  EXPECT_EQ(num_wrong, 0);
}

class OutfeedConcurrencyTest : public testing::Test {
 protected:
  ~OutfeedConcurrencyTest() override { ShutDown().IgnoreError(); }

  void Start(int64_t max_queued_bytes) {
    job_.Create(max_queued_bytes);
    ASSERT_THAT(job_.receiver->Start(), IsOk());
  }
  absl::Status ShutDown() {
    absl::Status result;
    BlockingCounter ended(1);
    job_.receiver->Shutdown([&](absl::Status status) {
      result = std::move(status);
      ended.DecrementCount();
    });
    ended.Wait();
    return result;
  }

  // Runs `work` for each device on a separate thread.
  template <typename F>
  static std::vector<std::thread> OnAllDevices(F work) {
    std::vector<std::thread> threads;
    for (int device = 0; device < kNumDevices; ++device) {
      threads.emplace_back([work, device] { work(device); });
    }
    return threads;
  }
  static void Join(std::vector<std::thread> threads) {
    for (std::thread& thread : threads) thread.join();
  }

  DefaultEnvironment environment_{/*num_workers=*/2};
  OutfeedJob job_{kNumDevices,
                  environment_.get(),
                  {.capacity_bytes = 1000, .capacity_arrays = 8}};
};

TEST_F(OutfeedConcurrencyTest, DeliversInOrderThroughAFewBytes) {
  Start(/*max_queued_bytes=*/20);
  std::atomic<int> num_above{0};
  job_.on_item = [&](int, uint32_t, absl::Span<Tensor>) {
    num_above += job_.receiver->queued_bytes() > 20;
    return absl::OkStatus();
  };
  Join(OnAllDevices([this](int device) {
    const OutfeedSender sender = job_.sender(device);
    for (int i = 0; i < kNumItems; ++i) {
      ASSERT_THAT(sender.SendAndWait(OutfeedJob::kNumberId, {Number(i)}),
                  IsOk());
    }
  }));
  EXPECT_THAT(ShutDown(), IsOk());
  EXPECT_EQ(num_above, 0);
  EXPECT_EQ(job_.receiver->queued_bytes(), 0);
  for (int device = 0; device < kNumDevices; ++device) {
    EXPECT_EQ(job_.numbers[device].size(), static_cast<size_t>(kNumItems));
    ExpectInOrder(job_.numbers[device]);
  }
}

TEST_F(OutfeedConcurrencyTest, AShutdownMeetsDevicesThatSend) {
  for (int round = 0; round < 20; ++round) {
    job_.numbers.assign(kNumDevices, {});
    Start(/*max_queued_bytes=*/round % 2 == 0 ? 12 : 1000);
    std::atomic<int> num_sent[kNumDevices] = {};
    auto threads = OnAllDevices([this, &num_sent](int device) {
      const OutfeedSender sender = job_.sender(device);
      absl::Status status;
      while (status.ok()) {
        status = sender.SendAndWait(OutfeedJob::kNumberId,
                                    {Number(num_sent[device])});
        num_sent[device] += status.ok();
      }
      EXPECT_THAT(status, IsCancelled());
    });
    while (num_sent[round % kNumDevices] < 100) std::this_thread::yield();
    EXPECT_THAT(ShutDown(), IsOk());
    Join(std::move(threads));
    for (int device = 0; device < kNumDevices; ++device) {
      EXPECT_EQ(job_.numbers[device].size(),
                static_cast<size_t>(num_sent[device]));
      ExpectInOrder(job_.numbers[device]);
    }
  }
}

TEST_F(OutfeedConcurrencyTest, ACallbackThatFailsMeetsDevicesThatSend) {
  for (int round = 0; round < 20; ++round) {
    Start(/*max_queued_bytes=*/round % 2 == 0 ? 12 : 1000);
    job_.on_item = [](int device, uint32_t, absl::Span<Tensor> arrays) {
      return device > 0 && NumberIn(arrays[0]) == 50 * device
                 ? absl::DataLossError("bad")
                 : absl::OkStatus();
    };
    Join(OnAllDevices([this](int device) {
      const OutfeedSender sender = job_.sender(device);
      for (int i = 0; i < 1000; ++i) {
        const absl::Status status =
            sender.SendAndWait(OutfeedJob::kNumberId, {Number(i)});
        if (!status.ok()) {
          EXPECT_GT(device, 0);
          return;
        }
      }
    }));
    EXPECT_THAT(ShutDown(), IsDataLoss());
    EXPECT_EQ(job_.receiver->queued_bytes(), 0);
    EXPECT_EQ(job_.receiver->statistics(0).num_items, 1000U);
  }
}

// Tests the order of a million items of four devices with random delays of the
// callbacks.

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

class OutfeedOrderTest : public testing::TestWithParam<int64_t> {
 protected:
  static constexpr int kNumDevices = 4;
  static constexpr int kNumItems = 1'000'000;  // All devices together.
};

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
    ASSERT_EQ(job.numbers[device].size(),
              static_cast<size_t>(num_sent[device]));
    ExpectInOrder(job.numbers[device]);
  }
}

INSTANTIATE_TEST_SUITE_P(Limits, OutfeedOrderTest,
                         testing::Values(64, int64_t{256} << 20));

}  // namespace outfeed_threads_test
}  // namespace tutti
