#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "framework/peer/buf_rendezvous.h"

namespace tutti {
namespace buf_rendezvous_stress_test {

constexpr int kThreads = 4;
constexpr int kTransfers = 2000;
constexpr int kExecutions = 8;

BufKey KeyOf(int transfer) {
  return {.exec = {.instance = transfer % 3,
                   .execution = static_cast<uint64_t>(transfer % kExecutions)},
          .tag = transfer,
          .from = transfer % 5,
          .to = transfer % 7};
}

// Makes kTransfers transfers, each side once, on any threads. The sender writes
// a buffer before it offers the buffer and after the release. The receiver
// reads it in between. So a release that is too early or too late shows as a
// race.
class Traffic : public Sender, public Receiver {
 public:
  explicit Traffic(BufRendezvous* rendezvous)
      : rendezvous_(rendezvous),
        bytes_(kTransfers),
        num_released_(kTransfers),
        num_delivered_(kTransfers) {}

  void Provide(int transfer) {
    bytes_[transfer] = std::byte{42};
    rendezvous_->Provide(
        KeyOf(transfer),
        {.bytes = {&bytes_[transfer], 1}, .sender = this, .id = transfer});
  }
  void Consume(int transfer) {
    rendezvous_->Consume(KeyOf(transfer),
                         {.num_bytes = 1, .receiver = this, .id = transfer});
  }

  void OnReleased(int32_t id, absl::Status status) override {
    bytes_[id] = std::byte{0};
    if (!status.ok()) ++num_failed_offers_;
    ++num_released_[id];
  }
  void OnDelivery(int32_t id, absl::Status status, Delivery delivery) override {
    ++num_delivered_[id];
    if (!status.ok()) {
      ++num_failed_asks_;
      return;
    }
    EXPECT_EQ(delivery.id, id);
    EXPECT_EQ(delivery.bytes[0], std::byte{42});
    delivery.Release(absl::OkStatus());
  }

  void ExpectEachSideReportedOnce() const {
    for (int i = 0; i < kTransfers; ++i) {
      EXPECT_EQ(num_released_[i], 1) << "transfer " << i;
      EXPECT_EQ(num_delivered_[i], 1) << "transfer " << i;
    }
  }
  int num_failed_offers() const { return num_failed_offers_; }
  int num_failed_asks() const { return num_failed_asks_; }

 private:
  BufRendezvous* const rendezvous_;
  std::vector<std::byte> bytes_;
  std::vector<std::atomic<int>> num_released_;
  std::vector<std::atomic<int>> num_delivered_;
  std::atomic<int> num_failed_offers_{0};
  std::atomic<int> num_failed_asks_{0};
};

class BufRendezvousStressTest : public testing::TestWithParam<uint32_t> {
 protected:
  // Runs both sides of all transfers, in an order given by the seed, on several
  // threads. `also` runs on each thread between its transfers.
  template <typename Also>
  void RunAll(Traffic& traffic, Also also) {
    std::vector<int> sides(2 * kTransfers);
    std::iota(sides.begin(), sides.end(), 0);
    std::shuffle(sides.begin(), sides.end(), std::mt19937(GetParam()));
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (size_t i = thread; i < sides.size(); i += kThreads) {
          const int transfer = sides[i] / 2;
          if (sides[i] % 2 == 0) {
            traffic.Provide(transfer);
          } else {
            traffic.Consume(transfer);
          }
          also(static_cast<int>(i));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_P(BufRendezvousStressTest, AllTransfersMeet) {
  const auto rendezvous = std::make_unique<BufRendezvous>();
  Traffic traffic(rendezvous.get());
  RunAll(traffic, [](int) {});
  traffic.ExpectEachSideReportedOnce();
  EXPECT_EQ(traffic.num_failed_offers(), 0);
  EXPECT_EQ(traffic.num_failed_asks(), 0);
  EXPECT_EQ(rendezvous->num_waiting(), 0u);
}

TEST_P(BufRendezvousStressTest, CancelledExecutionsLeaveNobodyWaiting) {
  const auto rendezvous = std::make_unique<BufRendezvous>();
  Traffic traffic(rendezvous.get());
  RunAll(traffic, [&](int done) {
    if (done % 200 != 0) return;
    rendezvous->CancelExecution(KeyOf((done / 200) % kExecutions).exec,
                                absl::CancelledError("stress"));
    rendezvous->ForgetExecution({.execution = 1000});
  });
  traffic.ExpectEachSideReportedOnce();
  EXPECT_EQ(rendezvous->num_waiting(), 0u);
  EXPECT_EQ(traffic.num_failed_offers(), traffic.num_failed_asks());
}

TEST_P(BufRendezvousStressTest, AnAbortLeavesNobodyWaiting) {
  const auto rendezvous = std::make_unique<BufRendezvous>();
  Traffic traffic(rendezvous.get());
  RunAll(traffic, [&](int done) {
    if (done % kTransfers == 0) {
      rendezvous->StartAbort(absl::AbortedError("stress"));
    }
  });
  traffic.ExpectEachSideReportedOnce();
  EXPECT_EQ(rendezvous->num_waiting(), 0u);
}

TEST_P(BufRendezvousStressTest, TeardownTellsAllThatStillWait) {
  auto rendezvous = std::make_unique<BufRendezvous>();
  Traffic traffic(rendezvous.get());
  for (int transfer = 0; transfer < kTransfers; ++transfer) {
    if (transfer % 2 == 0) {
      traffic.Provide(transfer);
    } else {
      traffic.Consume(transfer);
    }
  }
  rendezvous.reset();
  EXPECT_EQ(traffic.num_failed_offers(), kTransfers / 2);
  EXPECT_EQ(traffic.num_failed_asks(), kTransfers / 2);
}

INSTANTIATE_TEST_SUITE_P(Seeds, BufRendezvousStressTest,
                         testing::Range(1u, 11u), [](const auto& info) {
                           return "seed" + std::to_string(info.param);
                         });

}  // namespace buf_rendezvous_stress_test
}  // namespace tutti
