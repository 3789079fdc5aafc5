#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "outfeed/byte_budget.h"
#include "outfeed/frame.h"
#include "outfeed/memory_channel.h"
#include "outfeed/outfeed_testing.h"
#include "outfeed/parcel.h"
#include "outfeed/stream_reader.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/outfeed.h"
#include "tutti/tensor.h"

namespace tutti {
namespace outfeed_stream_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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
  EXPECT_THAT(ReadHeader(header), IsInvalidArgument("271829"));
}

TEST(FrameTest, RejectsWhatIsNoHeader) {
  EXPECT_THAT(ReadHeader(Tensor()), IsInvalidArgument("not set"));
  for (const auto& [dtype, size] :
       {std::pair(DType::kUint8, 7), std::pair(DType::kUint8, 9),
        std::pair(DType::kInt8, 8)}) {
    EXPECT_THAT(ReadHeader(*Tensor::Allocate(dtype, TensorShape::Vector(size))),
                IsInvalidArgument("header of uint8[8]"));
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
  void OnFailed(absl::Status status) override {
    failures.push_back(std::move(status));
  }

  std::vector<absl::Status> failures;
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
  EXPECT_EQ(late.status, absl::CancelledError("closed"));
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
    EXPECT_EQ(outcome.status, absl::AbortedError("broken"));
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

// Device with a memory of its own. Copies end when the test says so.
class CopyingDevice : public CpuDevice {
 public:
  using CpuDevice::CpuDevice;

  bool has_host_memory() const override { return false; }
  void CopyToHost(std::vector<Tensor> arrays, ArraysCallback done) override {
    if (arrays.empty()) return std::move(done)(std::move(arrays));
    copies_.push_back({std::move(arrays), std::move(done)});
  }

  // Ends the copy of the n-th transfer.
  void End(size_t n, absl::Status status = absl::OkStatus()) {
    auto [arrays, done] = std::exchange(copies_.at(n), {});
    if (!status.ok()) return std::move(done)(std::move(status));
    std::move(done)(std::move(arrays));
  }

 private:
  std::vector<std::pair<std::vector<Tensor>, ArraysCallback>> copies_;
};

// Channel of such a device.
class CopiesTest : public testing::Test {
 protected:
  CopiesTest() {
    EXPECT_THAT(channel_->TransferFromOutfeed(listener_), IsOk());
  }

  void Transfer(int64_t num_bytes, Outcome* outcome = nullptr) {
    Tensor array = Bytes(num_bytes);
    channel_->TransferToOutfeed(
        absl::MakeSpan(&array, 1),
        outcome == nullptr ? StatusCallback() : outcome->Done());
  }

  CopyingDevice device_{{.name = {"localhost", 0, 0, "GPU", 0}}};
  std::shared_ptr<Listener> listener_ = std::make_shared<Listener>();
  std::shared_ptr<MemoryChannel> channel_ = std::make_shared<MemoryChannel>(
      "device",
      MemoryChannel::Options{.capacity_bytes = 10, .device = &device_});
};

TEST_F(CopiesTest, EnterTheChannelInTheOrderOfTheirTransfers) {
  Outcome outcomes[3];
  for (int i : {0, 1, 2}) Transfer(i + 1, &outcomes[i]);
  EXPECT_EQ(channel_->tallies().waiting_transfers, 3U);
  device_.End(2);
  device_.End(1);
  EXPECT_THAT(listener_->sizes, IsEmpty());
  EXPECT_EQ(outcomes[1].num_calls, 0);
  device_.End(0);
  EXPECT_THAT(listener_->sizes, ElementsAre(1, 2, 3));
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.num_calls, 1);
    EXPECT_THAT(outcome.status, IsOk());
  }
  EXPECT_EQ(channel_->tallies().waiting_transfers, 0U);
}

TEST_F(CopiesTest, WaitForRoomToo) {
  listener_->num_allowed = 0;
  Outcome outcome;
  Transfer(10);
  Transfer(1, &outcome);
  device_.End(0);
  device_.End(1);
  EXPECT_EQ(outcome.num_calls, 0);
  listener_->num_allowed = 1000;
  channel_->Resume(*listener_);
  EXPECT_EQ(outcome.num_calls, 1);
  EXPECT_THAT(listener_->sizes, ElementsAre(10, 1));
}

TEST_F(CopiesTest, CloseComesAfterThem) {
  Transfer(2);
  channel_->Close(*listener_, Bytes(8), absl::CancelledError("closed"));
  Outcome late;
  Transfer(3, &late);
  EXPECT_THAT(late.status, IsCancelled("closed"));
  EXPECT_THAT(listener_->sizes, IsEmpty());
  device_.End(0);
  EXPECT_THAT(listener_->sizes, ElementsAre(2, 8));
}

TEST_F(CopiesTest, EnterNoLaterStream) {
  Outcome outcome;
  Transfer(2, &outcome);
  channel_->End(*listener_, absl::DataLossError("ended"));
  EXPECT_THAT(outcome.status, IsDataLoss("ended"));
  EXPECT_THAT(channel_->TransferFromOutfeed(listener_), IsOk());
  Transfer(3);
  device_.End(0);
  device_.End(1);
  EXPECT_THAT(listener_->sizes, ElementsAre(3));
  EXPECT_EQ(outcome.num_calls, 1);
}

TEST_F(CopiesTest, AloneFailForLackOfMemory) {
  Outcome first, second;
  Transfer(1, &first);
  Transfer(2, &second);
  device_.End(1);
  device_.End(0, absl::ResourceExhaustedError("no pages"));
  EXPECT_THAT(first.status, IsResourceExhausted("outfeed of device: no pages"));
  EXPECT_THAT(second.status, IsOk());
  EXPECT_THAT(listener_->sizes, ElementsAre(2));
  EXPECT_THAT(listener_->failures, IsEmpty());
}

TEST_F(CopiesTest, ALostDeviceIsReportedOnceAfterAllEarlierArrays) {
  listener_->num_allowed = 0;
  Outcome lost, later;
  Transfer(1);
  Transfer(2, &lost);
  Transfer(3, &later);
  device_.End(0);
  device_.End(2, absl::InternalError("also lost"));
  device_.End(1, absl::InternalError("lost"));
  EXPECT_THAT(listener_->failures, IsEmpty());
  listener_->num_allowed = 1000;
  channel_->Resume(*listener_);
  EXPECT_THAT(listener_->sizes, ElementsAre(1));
  EXPECT_THAT(listener_->failures,
              ElementsAre(IsInternal("outfeed of device: lost")));
  channel_->Resume(*listener_);
  EXPECT_EQ(listener_->failures.size(), 1U);
  EXPECT_EQ(lost.num_calls, 0);
  channel_->End(*listener_, listener_->failures[0]);
  EXPECT_THAT(lost.status, IsInternal("lost"));
  EXPECT_THAT(later.status, IsInternal("lost"));
}

TEST(OutfeedChannelOfTest, ADeviceThatCopiesHasOne) {
  CopyingDevice device({.name = {"localhost", 0, 0, "GPU", 0}});
  EXPECT_THAT(OutfeedChannelOf(device), IsOk());
}

TEST(OutfeedChannelOfTest, ADeviceThatHasItsMemoryAndDoesNotCopyHasNone) {
  class Mute : public CpuDevice {
   public:
    using CpuDevice::CpuDevice;
    bool has_host_memory() const override { return false; }
  };
  Mute device({.name = {"localhost", 0, 0, "GPU", 0}});
  EXPECT_THAT(OutfeedChannelOf(device), IsUnimplemented("GPU:0"));
}

TEST(OutfeedChannelOfTest, ACpuDeviceKeepsTheChannelThatItIsGiven) {
  CpuDevice device({.name = {"localhost", 0, 0, "CPU", 0}});
  EXPECT_EQ(device.outfeed_channel(), nullptr);
  const auto channel = OutfeedChannelOf(device).value();
  EXPECT_EQ(device.outfeed_channel(), channel);
  EXPECT_EQ(*OutfeedChannelOf(device), channel);
}

TEST(OutfeedChannelOfTest, OtherDevicesBringTheirOwn) {
  CpuDevice device({.name = {"localhost", 0, 0, "CUDA", 0}});
  EXPECT_THAT(OutfeedChannelOf(device), IsUnimplemented("CUDA:0"));
  const auto own =
      std::make_shared<MemoryChannel>("device", MemoryChannel::Options());
  device.GiveOutfeedChannel(own);
  EXPECT_EQ(*OutfeedChannelOf(device), own);
}

class ParcelTest : public testing::Test {
 protected:
  ParcelReader Written() {
    writer_.Finish();
    return ParcelReader(bytes_);
  }

  // Returns the status of reading these bytes as an entry.
  static absl::Status StatusOf(std::vector<uint8_t> entry) {
    std::vector<std::byte> bytes(entry.size());
    std::transform(entry.begin(), entry.end(), bytes.begin(),
                   [](uint8_t byte) { return std::byte{byte}; });
    ParcelReader reader(bytes);
    return reader.Next().status();
  }

  std::vector<std::byte> bytes_ = std::vector<std::byte>(kParcelBytes);
  ParcelWriter writer_{absl::MakeSpan(bytes_)};
};

template <typename Entry>
Entry NextOf(ParcelReader& reader) {
  const auto entry = reader.Next().value();
  return std::get<Entry>(*entry);
}

TEST_F(ParcelTest, EntriesComeOutAsTheyWentIn) {
  const ArraySpec spec{DType::kBFloat16, *TensorShape::Create({2, 0, 300})};
  const std::vector<std::byte> bytes(kMaxInlineBytes, std::byte{7});
  ASSERT_TRUE(writer_.Add(DefineEntry{0xfedcba98, 65536}));
  ASSERT_TRUE(writer_.Add(SpecEntry{spec}));
  ASSERT_TRUE(writer_.Add(ItemEntry{0x12345678}));
  ASSERT_TRUE(writer_.Add(InlineEntry{bytes}));
  ASSERT_TRUE(writer_.Add(InlineEntry{}));
  ASSERT_TRUE(writer_.Add(LargeEntry()));
  ASSERT_TRUE(writer_.Add(EndEntry{absl::DataLossError("no disk")}));
  ParcelReader reader = Written();
  const auto define = NextOf<DefineEntry>(reader);
  EXPECT_EQ(define.consumer_id, 0xfedcba98);
  EXPECT_EQ(define.num_arrays, 65536);
  EXPECT_EQ(NextOf<SpecEntry>(reader).spec, spec);
  EXPECT_EQ(NextOf<ItemEntry>(reader).consumer_id, 0x12345678);
  EXPECT_EQ(NextOf<InlineEntry>(reader).bytes, absl::MakeConstSpan(bytes));
  EXPECT_TRUE(NextOf<InlineEntry>(reader).bytes.empty());
  NextOf<LargeEntry>(reader);
  EXPECT_EQ(NextOf<EndEntry>(reader).status, absl::DataLossError("no disk"));
  EXPECT_EQ(reader.Next()->has_value(), false);
}

TEST_F(ParcelTest, AnEmptyOneHasRoomForAnyEntryAndAFullOneForNone) {
  const ArraySpec spec{DType::kInt8, *TensorShape::Create(std::vector<int64_t>(
                                         kMaxArrayDims, 1))};
  EXPECT_TRUE(writer_.Add(SpecEntry{spec}));
  EXPECT_TRUE(writer_.Add(SpecEntry{spec}));
  EXPECT_FALSE(writer_.Add(SpecEntry{spec}));
  while (writer_.Add(LargeEntry())) {
  }
  EXPECT_FALSE(writer_.Add(ItemEntry{1}));
  ParcelReader reader(bytes_);
  int num_entries = 0;
  while ((*reader.Next()).has_value()) ++num_entries;
  EXPECT_EQ(num_entries, kParcelBytes - 2 * (3 + 8 * kMaxArrayDims) + 2);
}

TEST_F(ParcelTest, ALongMessageIsCut) {
  EXPECT_TRUE(writer_.Add(
      EndEntry{absl::InternalError(std::string(kParcelBytes, 'x'))}));
  ParcelReader reader = Written();
  EXPECT_EQ(NextOf<EndEntry>(reader).status.message(),
            std::string(kMaxEndMessageBytes, 'x'));
}

TEST_F(ParcelTest, EveryFieldIsChecked) {
  const auto invalid = [](const char* what) { return IsInvalidArgument(what); };
  EXPECT_THAT(StatusOf({}), invalid("is empty"));
  EXPECT_THAT(StatusOf({0, 1}), invalid("is empty"));
  EXPECT_THAT(StatusOf({7}), invalid("kind 7"));
  EXPECT_THAT(StatusOf({1, 1, 0, 0, 0, 1, 0, 1, 0}), invalid("65537 arrays"));
  EXPECT_THAT(StatusOf({2, 99, 0}), invalid("99"));
  EXPECT_THAT(StatusOf({2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0x80}), invalid("-"));
  std::vector<uint8_t> too_many = {2, 0, 2};
  for (int dim = 0; dim < 2; ++dim) {
    too_many.insert(too_many.end(), {0, 0, 0, 0, 0, 0, 0, 0x40});
  }
  EXPECT_THAT(StatusOf(too_many), invalid("elements"));
  std::vector<uint8_t> too_long(2000, 1);
  too_long[0] = 4;
  too_long[1] = 1025 & 0xff;
  too_long[2] = 1025 >> 8;
  EXPECT_THAT(StatusOf(too_long), invalid("1025 bytes"));
  EXPECT_THAT(StatusOf({6, 17, 0, 0}), invalid("code 17"));
}

TEST_F(ParcelTest, EveryEntryIsCheckedForItsEnd) {
  const std::vector<uint8_t> entries[] = {
      {1, 1, 0, 0, 0, 1, 0, 0, 0},
      {2, 0, 1, 5, 0, 0, 0, 0, 0, 0, 0},
      {3, 1, 0, 0, 0},
      {4, 3, 0, 1, 2, 3},
      {6, 1, 2, 0, 'n', 'o'},
  };
  for (const std::vector<uint8_t>& entry : entries) {
    EXPECT_THAT(StatusOf(entry), IsOk());
    for (size_t size = 1; size < entry.size(); ++size) {
      EXPECT_THAT(StatusOf({entry.begin(),
                            entry.begin() + static_cast<ptrdiff_t>(size)}),
                  IsInvalidArgument("in the middle of an entry"));
    }
  }
}

using Entries = std::vector<ParcelEntry>;

class StreamReaderTest : public testing::Test {
 protected:
  // Reads a parcel with these entries until its end or the stream's end.
  absl::Status Read(const Entries& entries) {
    ParcelWriter writer{absl::MakeSpan(parcel_)};
    for (const ParcelEntry& entry : entries) {
      const bool has_room = std::visit(
          [&writer](const auto& added) { return writer.Add(added); }, entry);
      EXPECT_TRUE(has_room);
    }
    writer.Finish();
    reader_.Begin(parcel_);
    for (;;) {
      auto step = reader_.Next();
      if (!step.ok()) return step.status();
      const bool has_ended =
          std::holds_alternative<StreamReader::ParcelEnd>(*step) ||
          std::holds_alternative<StreamReader::End>(*step);
      steps_.push_back(*std::move(step));
      if (has_ended) return absl::OkStatus();
    }
  }

  void ExpectInvalid(const Entries& entries, const char* what) {
    EXPECT_THAT(Read(entries), IsInvalidArgument(what));
  }

  static SpecEntry Int32s(int64_t num_elements) {
    return {{DType::kInt32, TensorShape::Vector(num_elements)}};
  }

  std::vector<std::byte> parcel_ = std::vector<std::byte>(kParcelBytes);
  const std::shared_ptr<OutfeedRegistry> registry_ =
      std::make_shared<OutfeedRegistry>();
  StreamReader reader_{registry_};
  std::vector<StreamReader::Step> steps_;
};

TEST_F(StreamReaderTest, ReadsDefinitionsAndItemsAcrossParcels) {
  const std::vector<std::byte> bytes(8);
  EXPECT_THAT(Read({DefineEntry{5, 2}, Int32s(2)}), IsOk());
  EXPECT_THAT(Read({Int32s(300), ItemEntry{5}, InlineEntry{bytes}}), IsOk());
  EXPECT_THAT(Read({LargeEntry(), EndEntry{absl::OkStatus()}}), IsOk());
  ASSERT_EQ(steps_.size(), 6);
  EXPECT_EQ(std::get<StreamReader::Header>(steps_[1]).consumer,
            *registry_->Find(5));
  EXPECT_EQ(std::get<StreamReader::InlineArray>(steps_[2]).bytes.size(), 8);
  EXPECT_EQ(std::get<StreamReader::LargeArray>(steps_[4]).num_bytes, 1200);
  EXPECT_THAT(std::get<StreamReader::End>(steps_[5]).status, IsOk());
}

TEST_F(StreamReaderTest, WhatIsInTheWrongPlaceIsInvalid) {
  const std::vector<Entries> misplaced = {
      {Int32s(1)},
      {LargeEntry()},
      {InlineEntry{}},
      {DefineEntry{1, 1}, ItemEntry{1}},
      {DefineEntry{1, 1}, DefineEntry{2, 0}},
      {DefineEntry{1, 1}, EndEntry{}},
      {DefineEntry{1, 1}, Int32s(1), ItemEntry{1}, ItemEntry{1}},
      {DefineEntry{1, 1}, Int32s(1), ItemEntry{1}, EndEntry{}},
      {DefineEntry{1, 1}, Int32s(1), ItemEntry{1}, DefineEntry{2, 0}},
  };
  for (const Entries& entries : misplaced) {
    reader_ = StreamReader(std::make_shared<OutfeedRegistry>());
    ExpectInvalid(entries, "an entry that belongs");
  }
}

// The sending end had no memory for the rest of the item.
TEST_F(StreamReaderTest, AnEndForWantOfMemoryMayComeAnywhere) {
  const EndEntry end{absl::ResourceExhaustedError("no memory")};
  const std::vector<std::byte> bytes(4);
  const std::vector<Entries> broken_off = {
      {DefineEntry{1, 1}, end},
      {DefineEntry{1, 1}, Int32s(1), ItemEntry{1}, end},
      {DefineEntry{1, 2}, Int32s(1), Int32s(300), ItemEntry{1},
       InlineEntry{bytes}, end},
  };
  for (const Entries& entries : broken_off) {
    reader_ = StreamReader(std::make_shared<OutfeedRegistry>());
    EXPECT_EQ(Read(entries), end.status);
  }
}

TEST_F(StreamReaderTest, NoOtherEndBreaksAnItemOff) {
  EXPECT_THAT(Read({DefineEntry{1, 1}, Int32s(1), ItemEntry{1}}), IsOk());
  ExpectInvalid({EndEntry{absl::DataLossError("no disk")}},
                "an entry that belongs between items, found in an item");
}

TEST_F(StreamReaderTest, ItemsAreAsDefined) {
  const std::vector<std::byte> bytes(7);
  EXPECT_THAT(Read({DefineEntry{1, 1}, Int32s(2), DefineEntry{2, 1}, Int32s(0),
                    DefineEntry{3, 0}, ItemEntry{3}}),
              IsOk());
  ExpectInvalid({ItemEntry{4}}, "did not define");
  ExpectInvalid({DefineEntry{3, 0}}, "twice");
  ExpectInvalid({DefineEntry{0, 0}}, "reserved");
  ExpectInvalid({ItemEntry{2}, LargeEntry()}, "cannot come by itself");
  ExpectInvalid({ItemEntry{1}, InlineEntry{bytes}}, "found 7 bytes");
}

TEST_F(StreamReaderTest, AnIdIsAsTheRegistryHasIt) {
  EXPECT_THAT(registry_->Register(1, {Int32s(3).spec}), IsOk());
  EXPECT_THAT(Read({DefineEntry{1, 1}, Int32s(3)}), IsOk());
  reader_ = StreamReader(registry_);
  ExpectInvalid({DefineEntry{1, 1}, Int32s(4)}, "previous shape");
  reader_ = StreamReader(registry_);
  ExpectInvalid({DefineEntry{2, 1}, Int32s(int64_t{1} << 61)}, "bytes");
}

}  // namespace outfeed_stream_test
}  // namespace tutti
