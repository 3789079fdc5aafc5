#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "outfeed/byte_budget.h"
#include "outfeed/frame.h"
#include "outfeed/memory_channel.h"
#include "outfeed/outfeed_testing.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/tensor.h"

namespace tutti {
namespace channel_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(FrameTest, AHeaderHoldsTheConsumerId) {
  for (const uint32_t id : {1U, 255U, 256U, 0xFFFFFFFFU}) {
    EXPECT_EQ(*ReadHeader(*MakeHeader(id)), id);
  }
  EXPECT_EQ(*ReadHeader(ShutdownHeader()), kShutdownConsumerId);
}

TEST(FrameTest, TheStartMarkerIsTheFirstNumber) {
  const Tensor header = *MakeHeader(7);
  const int bytes[] = {0xD4, 0x25, 4, 0, 7, 0, 0, 0};  // 271828 = 0x425D4.
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(std::to_integer<int>(header.data()[i]), bytes[i]) << i;
  }
}

TEST(FrameTest, RejectsAnotherMarker) {
  Tensor header = *MakeHeader(7);
  header.mutable_data()[0] = std::byte{0xD5};
  EXPECT_THAT(ReadHeader(header), StatusIs(kInvalid, HasSubstr("271829")));
}

TEST(FrameTest, RejectsWhatIsNoHeader) {
  EXPECT_THAT(ReadHeader(Tensor()), StatusIs(kInvalid, HasSubstr("not set")));
  for (const auto& [dtype, size] :
       {std::pair(DType::kUint8, 7), std::pair(DType::kUint8, 9),
        std::pair(DType::kInt8, 8)}) {
    EXPECT_THAT(ReadHeader(*Tensor::Allocate(dtype, TensorShape::Vector(size))),
                StatusIs(kInvalid, HasSubstr("header of uint8[8]")));
  }
}

TEST(FrameTest, OnlyTheShutdownHeaderIsIt) {
  EXPECT_TRUE(IsShutdownHeader(ShutdownHeader()));
  EXPECT_FALSE(IsShutdownHeader(*MakeHeader(kShutdownConsumerId)));
  EXPECT_FALSE(IsShutdownHeader(Tensor()));
}

class Waiter : public ByteBudget::Waiter {
 public:
  void OnGranted() override { ++num_granted; }
  int num_granted = 0;
};

class ByteBudgetTest : public testing::Test {
 protected:
  ByteBudget budget_{10};
  std::shared_ptr<Waiter> first_ = std::make_shared<Waiter>();
  std::shared_ptr<Waiter> second_ = std::make_shared<Waiter>();
};

TEST_F(ByteBudgetTest, GrantsToTheLimitAndNoByteMore) {
  EXPECT_TRUE(budget_.TryTake(4));
  EXPECT_FALSE(budget_.TryTake(7));
  EXPECT_TRUE(budget_.TryTake(6));
  EXPECT_FALSE(budget_.TryTake(1));
  EXPECT_TRUE(budget_.TryTake(0));
  EXPECT_EQ(budget_.used_bytes(), 10);
}

TEST_F(ByteBudgetTest, GrantsMoreThanTheLimitWhenNoneIsUsed) {
  const int64_t large = (int64_t{1} << 62) - 1;
  EXPECT_TRUE(budget_.TryTake(large));
  EXPECT_FALSE(budget_.TryTake(1));
  budget_.Release(large);
  EXPECT_TRUE(budget_.TryTake(1));
  EXPECT_FALSE(budget_.TryTake(large));
}

TEST_F(ByteBudgetTest, GrantsInOrderOfArrival) {
  ASSERT_TRUE(budget_.TryTake(10));
  EXPECT_FALSE(budget_.TakeOrWait(11, first_));
  EXPECT_FALSE(budget_.TakeOrWait(1, second_));
  budget_.Release(5);
  EXPECT_EQ(second_->num_granted, 0);  // Room, but behind `first_`.
  EXPECT_FALSE(budget_.TryTake(1));
  budget_.Release(5);
  EXPECT_EQ(first_->num_granted, 1);
  EXPECT_EQ(budget_.used_bytes(), 11);
  budget_.Release(11);
  EXPECT_EQ(second_->num_granted, 1);
  EXPECT_EQ(budget_.used_bytes(), 1);
}

TEST_F(ByteBudgetTest, GrantsAllThatHaveRoom) {
  ASSERT_TRUE(budget_.TryTake(10));
  EXPECT_FALSE(budget_.TakeOrWait(4, first_));
  EXPECT_FALSE(budget_.TakeOrWait(6, second_));
  budget_.Release(10);
  EXPECT_EQ(first_->num_granted, 1);
  EXPECT_EQ(second_->num_granted, 1);
}

TEST_F(ByteBudgetTest, WhoStopsWaitingHoldsNobodyUp) {
  ASSERT_TRUE(budget_.TryTake(9));
  EXPECT_FALSE(budget_.TakeOrWait(2, first_));
  EXPECT_FALSE(budget_.TakeOrWait(1, second_));
  EXPECT_TRUE(budget_.StopWaiting(*first_));
  EXPECT_EQ(second_->num_granted, 1);
  EXPECT_FALSE(budget_.StopWaiting(*first_));
  EXPECT_FALSE(budget_.StopWaiting(*second_));
  budget_.Release(10);
  EXPECT_EQ(first_->num_granted, 0);
  EXPECT_EQ(budget_.used_bytes(), 0);
}

// Takes as many arrays as the test allows.
class Listener : public OutfeedListener {
 public:
  size_t TakeArrays(absl::Span<Tensor> arrays) override {
    if (on_arrays) on_arrays();
    size_t num_taken = 0;
    while (num_taken < arrays.size() && num_allowed > 0) {
      const Tensor array = std::move(arrays[num_taken++]);
      sizes.push_back(array.size_bytes());
      --num_allowed;
    }
    return num_taken;
  }
  void OnFailed(absl::Status /*status*/) override {}

  size_t num_allowed = 1000;
  std::vector<size_t> sizes;
  std::function<void()> on_arrays;
};

class MemoryChannelTest : public testing::Test {
 protected:
  MemoryChannelTest() {
    EXPECT_THAT(channel_.TransferFromOutfeed(listener_), IsOk());
  }

  void Transfer(std::vector<int64_t> sizes, Outcome* outcome = nullptr) {
    std::vector<Tensor> arrays;
    for (const int64_t size : sizes) arrays.push_back(Bytes(size));
    channel_.TransferToOutfeed(absl::MakeSpan(arrays), outcome == nullptr
                                                           ? StatusCallback()
                                                           : outcome->Done());
  }
  void Pause() { listener_->num_allowed = 0; }
  void Resume() {
    listener_->num_allowed = 1000;
    channel_.Resume(*listener_);
  }

  std::shared_ptr<Listener> listener_ = std::make_shared<Listener>();
  MemoryChannel channel_{"device",
                         {.capacity_bytes = 10, .capacity_arrays = 3}};
};

TEST_F(MemoryChannelTest, GivesTheListenerTheSameMemory) {
  std::vector<Tensor> arrays = {Bytes(4)};
  Outcome outcome;
  channel_.TransferToOutfeed(absl::MakeSpan(arrays), outcome.Done());
  EXPECT_THAT(listener_->sizes, ElementsAre(4));
  EXPECT_EQ(outcome.num_calls, 1);
  EXPECT_THAT(outcome.status, IsOk());
  EXPECT_EQ(channel_.tallies().queued_arrays, 0U);
}

TEST_F(MemoryChannelTest, TransfersWaitForRoomInOrder) {
  Pause();
  Outcome fits, too_many_bytes, small;
  Transfer({9}, &fits);
  EXPECT_EQ(fits.num_calls, 1);
  Transfer({2}, &too_many_bytes);
  Transfer({1}, &small);  // There is room, but `too_many_bytes` comes before.
  EXPECT_EQ(too_many_bytes.num_calls, 0);
  EXPECT_EQ(small.num_calls, 0);
  EXPECT_EQ(channel_.tallies().queued_bytes, 9);
  EXPECT_EQ(channel_.tallies().waiting_transfers, 2U);
  Resume();
  EXPECT_THAT(listener_->sizes, ElementsAre(9, 2, 1));
  EXPECT_THAT(too_many_bytes.status, IsOk());
  EXPECT_EQ(small.num_calls, 1);
  EXPECT_EQ(channel_.tallies().queued_bytes, 0);
}

TEST_F(MemoryChannelTest, BoundsTheNumberOfArrays) {
  Pause();
  Outcome third, fourth;
  Transfer({0, 0});
  Transfer({0}, &third);
  Transfer({0}, &fourth);
  EXPECT_EQ(third.num_calls, 1);
  EXPECT_EQ(fourth.num_calls, 0);
  Resume();
  EXPECT_EQ(fourth.num_calls, 1);
}

TEST_F(MemoryChannelTest, OneTransferOfAnySizeHasRoom) {
  Pause();
  Outcome outcome;
  Transfer({5, 5, 5, 5, 5}, &outcome);
  EXPECT_EQ(outcome.num_calls, 1);
  listener_->num_allowed = 2;
  channel_.Resume(*listener_);
  EXPECT_EQ(channel_.tallies().queued_bytes, 15);
  Resume();
  EXPECT_THAT(listener_->sizes, ElementsAre(5, 5, 5, 5, 5));
}

TEST_F(MemoryChannelTest, ResumingInsideTheListenerIsNotLost) {
  Pause();
  listener_->on_arrays = [this] {
    listener_->on_arrays = nullptr;
    channel_.Resume(*listener_);
    listener_->on_arrays = [this] { listener_->num_allowed = 1000; };
  };
  Transfer({1});
  EXPECT_THAT(listener_->sizes, ElementsAre(1));
}

TEST_F(MemoryChannelTest, ADoneMayTransferForEver) {
  int left = 100'000;
  std::function<void()> again = [&] {
    if (--left == 0) return;
    std::vector<Tensor> arrays = {Bytes(1)};
    listener_->num_allowed = 1;
    channel_.TransferToOutfeed(absl::MakeSpan(arrays),
                               [&](const absl::Status&) { again(); });
  };
  again();
  EXPECT_EQ(left, 0);
}

TEST_F(MemoryChannelTest, FailsWhileNobodyListens) {
  MemoryChannel channel("device 7", {});
  Outcome outcome;
  channel.TransferToOutfeed({}, outcome.Done());
  EXPECT_THAT(outcome.status, IsFailedPrecondition(
                                  "nobody listens to the outfeed of device 7"));
}

TEST_F(MemoryChannelTest, HasOneListener) {
  EXPECT_THAT(channel_.TransferFromOutfeed(std::make_shared<Listener>()),
              IsFailedPrecondition("somebody listens"));
}

TEST_F(MemoryChannelTest, CloseComesAfterAllThatWasTransferred) {
  Pause();
  Outcome waits, late;
  Transfer({9});
  Transfer({8}, &waits);
  channel_.Close(*listener_, Bytes(7), absl::CancelledError("closed"));
  Transfer({6}, &late);
  EXPECT_THAT(late.status, StatusIs(absl::StatusCode::kCancelled, "closed"));
  Resume();
  EXPECT_THAT(waits.status, IsOk());
  EXPECT_THAT(listener_->sizes, ElementsAre(9, 8, 7));
}

TEST_F(MemoryChannelTest, EndFailsWhatWaitsAndDropsWhatWasNotTaken) {
  Pause();
  Outcome waits, late, next;
  listener_->num_allowed = 1;
  Transfer({1, 8});
  Transfer({8}, &waits);
  channel_.End(*listener_, absl::AbortedError("broken"));
  Transfer({7}, &late);
  for (const Outcome& outcome : {waits, late}) {
    EXPECT_EQ(outcome.num_calls, 1);
    EXPECT_THAT(outcome.status, StatusIs(absl::StatusCode::kAborted, "broken"));
  }
  listener_ = std::make_shared<Listener>();
  ASSERT_THAT(channel_.TransferFromOutfeed(listener_), IsOk());
  Transfer({6}, &next);
  EXPECT_THAT(next.status, IsOk());
  EXPECT_THAT(listener_->sizes, ElementsAre(6));
}

TEST_F(MemoryChannelTest, EndInsideTheListenerDropsTheRest) {
  const auto next = std::make_shared<Listener>();
  listener_->num_allowed = 1;
  listener_->on_arrays = [&] {
    channel_.End(*listener_, absl::AbortedError("broken"));
    ASSERT_THAT(channel_.TransferFromOutfeed(next), IsOk());
  };
  Transfer({1, 2, 3});
  EXPECT_THAT(next->sizes, IsEmpty());
  EXPECT_EQ(channel_.tallies().queued_arrays, 0U);
  Transfer({4});
  EXPECT_THAT(next->sizes, ElementsAre(4));
}

TEST_F(MemoryChannelTest, IgnoresAListenerWhoseStreamHasEnded) {
  const auto old = listener_;
  channel_.End(*old, absl::AbortedError("broken"));
  listener_ = std::make_shared<Listener>();
  ASSERT_THAT(channel_.TransferFromOutfeed(listener_), IsOk());
  channel_.Close(*old, Bytes(1), absl::CancelledError("closed"));
  channel_.End(*old, absl::CancelledError("ended"));
  Transfer({5});
  EXPECT_THAT(listener_->sizes, ElementsAre(5));
}

TEST_F(MemoryChannelTest, WhatWaitsFailsWithTheChannel) {
  Outcome waits;
  {
    MemoryChannel channel("device", {});
    ASSERT_THAT(channel.TransferFromOutfeed(listener_), IsOk());
    Pause();
    for (const bool is_second : {false, true}) {
      std::vector<Tensor> arrays = {Bytes(1 << 20)};
      channel.TransferToOutfeed(absl::MakeSpan(arrays),
                                is_second ? waits.Done() : nullptr);
    }
    EXPECT_EQ(waits.num_calls, 0);
  }
  EXPECT_THAT(waits.status, IsCancelled("destroyed"));
}

TEST_F(MemoryChannelTest, RejectsMoreBytesThanCanBeCounted) {
  std::byte byte{};
  const Tensor large =
      *Tensor::Wrap(DType::kInt8, TensorShape::Vector(int64_t{1} << 61), &byte);
  std::vector<Tensor> arrays = {large, large, Bytes(1)};
  Outcome outcome;
  channel_.TransferToOutfeed(absl::MakeSpan(arrays), outcome.Done());
  EXPECT_THAT(outcome.status, IsInvalidArgument("3 arrays"));
}

TEST(OutfeedChannelOfTest, ACpuDeviceKeepsTheChannelThatItIsGiven) {
  CpuDevice device({.name = {"localhost", 0, 0, "CPU", 0}});
  EXPECT_EQ(device.outfeed_channel(), nullptr);
  const auto channel = OutfeedChannelOf(device);
  ASSERT_THAT(channel, IsOk());
  EXPECT_EQ(device.outfeed_channel(), *channel);
  EXPECT_EQ(*OutfeedChannelOf(device), *channel);
}

TEST(OutfeedChannelOfTest, OtherDevicesBringTheirOwn) {
  CpuDevice device({.name = {"localhost", 0, 0, "CUDA", 0}});
  EXPECT_THAT(OutfeedChannelOf(device), IsUnimplemented("CUDA:0"));
  const auto own =
      std::make_shared<MemoryChannel>("device", MemoryChannel::Options());
  device.GiveOutfeedChannel(own);
  EXPECT_EQ(*OutfeedChannelOf(device), own);
}

}  // namespace channel_test
}  // namespace tutti
