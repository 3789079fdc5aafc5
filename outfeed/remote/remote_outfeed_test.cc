#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "outfeed/outfeed_testing.h"
#include "outfeed/remote/remote_outfeed_pair.h"
#include "outfeed/remote/remote_outfeed_testing.h"
#include "outfeed/remote/stream_link.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/local_runtime.h"
#include "tutti/tensor.h"

namespace tutti {
namespace remote_outfeed_test {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Optional;
using ::testing::SizeIs;

// Tests items of another process's device: order, room, and an orderly end.

TEST_F(RemoteOutfeedTest, ItemsOfAllSizesComeInOrder) {
  Connect();
  StartReceiver();
  for (int32_t i = 0; i < 5; ++i) {
    SendNumber(10 * i);
    sender().Send(kPairId, {Number(10 * i + 1), Numbered(kLargeBytes, 5)},
                  nullptr);
    sender().Send(kEmptyId, {}, nullptr);
    sender().Send(kHugeId, {Numbered(kHugeBytes, 10 * i + 2)}, nullptr);
    sender().Send(kLargeId, {Numbered(kLargeBytes, 10 * i + 3)}, nullptr);
    if (i % 2 == 0) job_.environment().RunAll();
  }
  job_.environment().RunAll();
  ASSERT_THAT(items_, SizeIs(25));
  for (size_t i = 0; i < 5; ++i) {
    const auto base = static_cast<int32_t>(10 * i);
    const ReceivedItem* items = &items_[5 * i];
    EXPECT_EQ(items[0].first_number, base);
    EXPECT_EQ(items[1].first_number, base + 1);
    EXPECT_THAT(items[1].sizes, ElementsAre(4, kLargeBytes));
    EXPECT_EQ(items[2].id, kEmptyId);
    EXPECT_EQ(items[3].first_number, base + 2);
    EXPECT_THAT(items[3].sizes, ElementsAre(kHugeBytes));
    EXPECT_EQ(items[4].first_number, base + 3);
  }
}

TEST_F(RemoteOutfeedTest, WhatIsSentBeforeAReceiverStartsWaits) {
  ConnectExport();
  ExpectSendersGet(IsFailedPrecondition());
  ConnectRemote();
  job_.environment().RunAll();
  std::vector<int32_t> expected(2000);
  std::iota(expected.begin(), expected.end(), 0);
  for (const int32_t number : expected) SendNumber(number);
  EXPECT_THAT(items_, IsEmpty());
  StartReceiver();
  EXPECT_EQ(Numbers(), expected);
}

TEST_F(RemoteOutfeedTest, ASlowCallbackHoldsTheSenderBack) {
  Connect();
  StartReceiver(/*max_queued_bytes=*/100);
  // No works run, therefore no callbacks.
  int64_t num_bytes = 0;
  do {
    outcomes_.push_back(std::make_unique<Outcome>());
    sender().Send(kLargeId, {Numbered(kLargeBytes, 0)},
                  outcomes_.back()->Done());
    num_bytes += kLargeBytes;
  } while (outcomes_.back()->num_calls == 1 && num_bytes < 100'000'000);
  EXPECT_EQ(outcomes_.back()->num_calls, 0);
  // Bytes in both channels, the window, the batch, and an item above the limit.
  EXPECT_LT(num_bytes, 6'000'000);
  EXPECT_EQ(receiver_->queued_bytes(), kLargeBytes);
  job_.environment().RunAll();
  EXPECT_THAT(outcomes_.back()->status, IsOk());
  EXPECT_EQ(outcomes_.back()->num_calls, 1);
  EXPECT_THAT(items_, SizeIs(outcomes_.size()));
}

TEST_F(RemoteOutfeedTest, SmallItemsAreHeldBackToo) {
  Connect();
  StartReceiver(/*max_queued_bytes=*/100);
  const int num_sent = FillUp();
  EXPECT_LT(num_sent, 40'000);
  job_.environment().RunAll();
  EXPECT_THAT(items_, SizeIs(num_sent));
  EXPECT_EQ(outcomes_.back()->num_calls, 1);
}

TEST_F(RemoteOutfeedTest, ShutdownDeliversWhatWasSentBefore) {
  Connect();
  StartReceiver(/*max_queued_bytes=*/100);
  const int num_sent = FillUp();
  receiver_->Shutdown(shutdown_.Done());
  EXPECT_EQ(shutdown_.num_calls, 0);
  ExpectSendersGet(IsCancelled("receiver was shut down"));
  job_.environment().RunAll();
  EXPECT_THAT(items_, SizeIs(num_sent));
  EXPECT_EQ(shutdown_.num_calls, 1);
  EXPECT_THAT(shutdown_.status, IsOk());
  EXPECT_THAT(ended_, Optional(IsOk()));
  EXPECT_THAT(outcomes_.back()->status, IsOk());
  EXPECT_TRUE(receiver_->statistics(0).has_ended);
}

TEST_F(RemoteOutfeedTest, TheSendingEndHasEndedWhenAllWasFetched) {
  Connect();
  StartReceiver(/*max_queued_bytes=*/4);
  SendNumber(1);
  SendNumber(2);  // The receiver has no room yet.
  receiver_->Shutdown(shutdown_.Done());
  EXPECT_THAT(ended_, Optional(IsOk()));
  EXPECT_THAT(items_, IsEmpty());
  export_.reset();
  job_.environment().RunAll();
  EXPECT_THAT(Numbers(), ElementsAre(1, 2));
  EXPECT_THAT(shutdown_.status, IsOk());
}

TEST_F(RemoteOutfeedTest, AnotherConnectionFollowsAnEnd) {
  Connect();
  StartReceiver();
  SendNumber(1);
  Shutdown();
  CreateReceiver();
  EXPECT_THAT(receiver_->Start(), IsFailedPrecondition());
  ++instance_key_;
  receiver_.reset();
  Connect();
  StartReceiver();
  SendNumber(2);
  Shutdown();
  EXPECT_THAT(Numbers(), ElementsAre(1, 2));
}

// Tests both ends of outfeeds between processes, with threads.

constexpr uint32_t kSmallId = 1;
constexpr uint32_t kLargeId = 2;
constexpr int kNumItems = 20'000;
constexpr int64_t kLargeBytes = 5000;

class RemoteOutfeedConcurrencyTest : public testing::Test {
 protected:
  void Start(int64_t max_queued_bytes, InstanceKey instance_key = 1) {
    num_received_ = 0;
    num_wrong_ = 0;
    pair_ = std::make_unique<RemoteOutfeedPair>(Connection(0, instance_key),
                                                Connection(1, instance_key));
    ASSERT_THAT(
        pair_->registry().Register(kSmallId, {{DType::kInt32, TensorShape()}}),
        IsOk());
    ASSERT_THAT(
        pair_->registry().Register(
            kLargeId, {{DType::kInt32, TensorShape()},
                       {DType::kUint8, TensorShape::Vector(kLargeBytes)}}),
        IsOk());
    const auto on_item = [this](Device&, uint32_t, absl::Span<Tensor> arrays) {
      num_wrong_ += NumberIn(arrays[0]) == num_received_++ ? 0 : 1;
      return callback_ ? callback_(num_received_) : absl::OkStatus();
    };
    ASSERT_THAT(pair_->Start(on_item, max_queued_bytes), IsOk());
  }

  OutfeedConnection Connection(int rank, InstanceKey instance_key) {
    return {.executor = group_->manager().FindOrCreate(step_id_),
            .device = group_->devices()[static_cast<size_t>(rank)],
            .group_key = 4,
            .instance_key = instance_key};
  }

  // Sends the items. Returns the status of the last send.
  absl::Status SendAll(int num_items) {
    const OutfeedSender sender = pair_->sender();
    const Tensor large = Bytes(kLargeBytes);
    absl::Status status;
    for (int i = 0; i < num_items && status.ok(); ++i) {
      status = i % 10 == 9 ? sender.SendAndWait(kLargeId, {Number(i), large})
                           : sender.SendAndWait(kSmallId, {Number(i)});
    }
    return status;
  }

  DefaultEnvironment environment_{/*num_workers=*/2};
  const std::unique_ptr<LocalGroup> group_ =
      *LocalGroup::Create(environment_.get(), 1, 2);
  int64_t step_id_ = 3;
  int num_received_ = 0;  // The callbacks', and the test's when they ended.
  int num_wrong_ = 0;
  std::function<absl::Status(int num_received)> callback_;
  std::unique_ptr<RemoteOutfeedPair> pair_;
};

TEST_F(RemoteOutfeedConcurrencyTest, DeliversInOrderThroughAFewBytes) {
  Start(/*max_queued_bytes=*/20);
  EXPECT_THAT(SendAll(kNumItems), IsOk());
  EXPECT_THAT(pair_->Shutdown(), IsOk());
  EXPECT_EQ(num_received_, kNumItems);
  EXPECT_EQ(num_wrong_, 0);
  EXPECT_THAT(pair_->AwaitExportEnd(), IsOk());
}

TEST_F(RemoteOutfeedConcurrencyTest, AnEndInTheMiddleEndsTheSender) {
  const std::function<void()> ends[] = {
      [this] { pair_->Shutdown().IgnoreError(); },
      [this] { pair_->DestroyExport(); },
      [this] {
        group_->manager().FindOrCreate(step_id_)->StartAbort(
            absl::AbortedError("stopped"));
      }};
  InstanceKey instance_key = 1;
  for (const auto& end : ends) {
    for (int round = 0; round < 20; ++round) {
      Start(/*max_queued_bytes=*/1000, ++instance_key);
      std::thread sending([this] {
        EXPECT_THAT(SendAll(/*num_items=*/100'000'000), Not(IsOk()));
      });
      end();
      sending.join();
      pair_.reset();
      EXPECT_EQ(num_wrong_, 0);
      group_->manager().Cleanup(step_id_++);
    }
  }
}

TEST_F(RemoteOutfeedConcurrencyTest, AFailedCallbackEndsTheSender) {
  callback_ = [](int num_received) {
    return num_received < 1000 ? absl::OkStatus()
                               : absl::DataLossError("no disk");
  };
  Start(/*max_queued_bytes=*/1000);
  EXPECT_THAT(SendAll(/*num_items=*/100'000'000), IsDataLoss("no disk"));
  EXPECT_EQ(num_received_, 1000);
  EXPECT_EQ(num_wrong_, 0);
}

}  // namespace remote_outfeed_test
}  // namespace tutti
