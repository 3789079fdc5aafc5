// Tests items of another process's device: order, room, and an orderly end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/status/status.h"
#include "outfeed/outfeed_testing.h"
#include "outfeed/remote/remote_outfeed_testing.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace remote_outfeed_test {

using absl::StatusCode;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::SizeIs;

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
  ExpectSendersGet(StatusIs(StatusCode::kFailedPrecondition, _));
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
  ExpectSendersGet(
      StatusIs(StatusCode::kCancelled, HasSubstr("receiver was shut down")));
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
  EXPECT_THAT(receiver_->Start(), StatusIs(StatusCode::kFailedPrecondition, _));
  ++instance_key_;
  receiver_.reset();
  Connect();
  StartReceiver();
  SendNumber(2);
  Shutdown();
  EXPECT_THAT(Numbers(), ElementsAre(1, 2));
}

}  // namespace remote_outfeed_test
}  // namespace tutti
