// Tests devices on several threads that send to one receiver.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "outfeed/outfeed_testing.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

namespace tutti {
namespace outfeed_concurrency_test {

constexpr int kNumDevices = 3;
constexpr int kNumItems = 20'000;  // Per device.

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

  // Expects all items of the device, in order.
  void ExpectInOrder(int device) {
    const std::vector<int32_t>& numbers = job_.numbers[device];
    int num_wrong = 0;
    for (size_t i = 0; i < numbers.size(); ++i) {
      num_wrong += numbers[i] != static_cast<int32_t>(i);
    }
    EXPECT_EQ(num_wrong, 0);
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
    ExpectInOrder(device);
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
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kCancelled, testing::_));
    });
    while (num_sent[round % kNumDevices] < 100) std::this_thread::yield();
    EXPECT_THAT(ShutDown(), IsOk());
    Join(std::move(threads));
    for (int device = 0; device < kNumDevices; ++device) {
      EXPECT_EQ(job_.numbers[device].size(),
                static_cast<size_t>(num_sent[device]));
      ExpectInOrder(device);
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
    EXPECT_THAT(ShutDown(), StatusIs(absl::StatusCode::kDataLoss, testing::_));
    EXPECT_EQ(job_.receiver->queued_bytes(), 0);
    EXPECT_EQ(job_.receiver->statistics(0).num_items, 1000U);
  }
}

}  // namespace outfeed_concurrency_test
}  // namespace tutti
