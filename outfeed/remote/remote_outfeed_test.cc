#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/peer/local_peer_access.h"
#include "outfeed/frame.h"
#include "outfeed/memory_channel.h"
#include "outfeed/outfeed_testing.h"
#include "outfeed/parcel.h"
#include "outfeed/remote/remote_outfeed_pair_testing.h"
#include "outfeed/remote/remote_outfeed_testing.h"
#include "outfeed/remote/stream_link.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/local_runtime.h"
#include "tutti/peer_access.h"
#include "tutti/tensor.h"

namespace tutti {
namespace remote_outfeed_test {

using absl::StatusCode;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
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

// Tests which events end the outfeed of another process's device, and who
// receives the status.

TEST_F(RemoteOutfeedTest, AFailedCallbackReachesTheSender) {
  Connect();
  StartReceiver();
  on_item_ = [] { return absl::DataLossError("no disk"); };
  SendNumber(1);
  SendNumber(2);
  job_.environment().RunAll();
  const auto failed =
      IsDataLoss(sending_device().full_name(), "callback failed", "no disk");
  ExpectSendersGet(failed);
  EXPECT_THAT(ended_, Optional(failed));
  EXPECT_THAT(Numbers(), ElementsAre(1));
  Shutdown();
  EXPECT_THAT(shutdown_.status, failed);
}

class BrokenItemsTest : public RemoteOutfeedTest,
                        public testing::WithParamInterface<int> {
 protected:
  std::vector<Tensor> Broken() {
    const Tensor header = (*sender_registry_->Find(kNumberId))->header;
    switch (GetParam()) {
      case 0:
        return {Bytes(8)};  // The caller fills it.
      case 1:
        return {Number(1)};
      case 2:
        return {*MakeHeader(99)};
      case 3:
        return {header, Bytes(4)};
      default:
        return {header, header};
    }
  }
};

TEST_P(BrokenItemsTest, EndTheStreamAtBothEndsAfterTheItemsBefore) {
  Connect();
  StartReceiver();
  SendNumber(1);
  std::vector<Tensor> broken = Broken();
  if (GetParam() == 0) std::memset(broken[0].mutable_data(), 7, 8);
  SendRaw(std::move(broken));
  SendNumber(2);
  job_.environment().RunAll();
  const auto error = StatusIs(
      GetParam() == 2 ? StatusCode::kNotFound : StatusCode::kInvalidArgument,
      HasSubstr("outfeed of " + sending_device().full_name()));
  EXPECT_THAT(receiver_->statistics(0).status, error);
  EXPECT_THAT(ended_, Optional(error));
  ExpectSendersGet(error);
  EXPECT_THAT(Numbers(), ElementsAre(1));
}

INSTANTIATE_TEST_SUITE_P(Kinds, BrokenItemsTest, testing::Range(0, 5));

TEST_F(RemoteOutfeedTest, OtherArraysForAnIdEndTheStream) {
  EXPECT_THAT(receiver_registry_->Register(kLargeId, {Int32()}), IsOk());
  Connect();
  StartReceiver();
  SendNumber(1);
  sender().Send(kLargeId, {Numbered(kLargeBytes, 1)}, nullptr);
  job_.environment().RunAll();
  const auto error =
      IsInvalidArgument("does not match previous shape (int32[])");
  EXPECT_THAT(receiver_->statistics(0).status, error);
  EXPECT_THAT(ended_, Optional(error));
  EXPECT_THAT(Numbers(), ElementsAre(1));
}

TEST_F(RemoteOutfeedTest, TheDestructionOfEitherEndReachesTheOther) {
  for (const bool exports : {true, false}) {
    ConnectAgain();
    StartReceiver(/*max_queued_bytes=*/4);
    SendNumber(1);
    sender().Send(kLargeId, {Numbered(kLargeBytes, 1)}, nullptr);
    if (exports) {
      export_.reset();
      job_.environment().RunAll();
      EXPECT_THAT(receiver_->statistics(0).status,
                  IsCancelled("sending end was destroyed"));
      Shutdown();
      receiver_.reset();
    } else {
      receiver_.reset();
      job_.environment().RunAll();
      remote_.reset();
    }
    EXPECT_TRUE(ended_.has_value());
    ExpectSendersGet(IsCancelled());
    export_.reset();
    remote_.reset();
  }
}

TEST_F(RemoteOutfeedTest, AReceivingEndThatNeverListenedEndsWithItsLoans) {
  Connect();
  int num_released = 0;
  std::vector<std::byte> memory(kLargeBytes);
  sender().Send(kLargeId,
                {*Tensor::Wrap(DType::kUint8, TensorShape::Vector(kLargeBytes),
                               memory.data(), [&] { ++num_released; })},
                nullptr);
  EXPECT_EQ(num_released, 0);
  remote_.reset();
  EXPECT_EQ(num_released, 1);
  EXPECT_THAT(ended_, Optional(IsCancelled("receiving end, at /job:")));
}

// Code that runs at the end may destroy objects that the deleters need.
TEST_F(RemoteOutfeedTest, TheArraysOfAHalfItemAreFreeBeforeTheEndIsTold) {
  Connect();
  StartReceiver();
  std::vector<bool> had_ended;  // At each deleter.
  std::vector<std::byte> memory(4);
  Tensor number =
      *Tensor::Wrap(DType::kInt32, TensorShape(), memory.data(),
                    [&] { had_ended.push_back(ended_.has_value()); });
  SendRaw({(*sender_registry_->Find(kPairId))->header, std::move(number)});
  EXPECT_THAT(had_ended, IsEmpty());
  export_.reset();
  EXPECT_THAT(ended_, Optional(IsCancelled()));
  EXPECT_THAT(had_ended, ElementsAre(false));
}

TEST_F(RemoteOutfeedTest, TheArraysOfABrokenTransferAreFreeBeforeTheEnd) {
  for (const bool header_ends : {true, false}) {
    ConnectAgain();
    StartReceiver();
    std::vector<bool> had_ended;  // At each deleter.
    std::vector<std::byte> memory(8);
    const Tensor header = (*sender_registry_->Find(kPairId))->header;
    std::memcpy(memory.data(), header.data(), memory.size());
    std::vector<Tensor> arrays;
    const auto add = [&](DType dtype, const TensorShape& shape, bool ends) {
      arrays.push_back(*Tensor::Wrap(dtype, shape, memory.data(), [&, ends] {
        if (ends) export_.reset();
        had_ended.push_back(ended_.has_value());
      }));
    };
    add(DType::kUint8, TensorShape::Vector(8), header_ends);
    add(DType::kInt32, TensorShape(), false);
    add(DType::kUint8, TensorShape::Vector(4), false);  // Wrong type.
    add(DType::kUint8, TensorShape::Vector(5), false);
    SendRaw(std::move(arrays));
    EXPECT_THAT(ended_, Optional(IsInvalidArgument()));
    EXPECT_THAT(had_ended, ElementsAre(false, false, false, false));
    Disconnect();
  }
}

TEST_F(RemoteOutfeedTest, AnAbortOfTheStepEndsBothEnds) {
  for (const bool listens : {false, true}) {
    ConnectAgain();
    if (listens) StartReceiver();
    SendNumber(1);
    job_.manager().FindOrCreate(step_id_)->StartAbort(
        absl::AbortedError("stopped"));
    job_.environment().RunAll();
    const auto stopped = IsAborted("stopped");
    EXPECT_THAT(ended_, Optional(stopped));
    ExpectSendersGet(stopped);
    if (!listens) StartReceiver();  // Receives the end.
    EXPECT_THAT(receiver_->statistics(0).status, stopped);
    Disconnect();
    job_.manager().Cleanup(step_id_++);
  }
}

// The sending end knows that the items were fetched.
TEST_F(RemoteOutfeedTest, WhatHadComeBeforeAnAbortIsDelivered) {
  std::vector<int32_t> expected(1500);  // More than fit into the inner channel.
  std::iota(expected.begin(), expected.end(), 0);
  const std::pair<std::optional<Tensor>, StatusCode> cases[] = {
      {ShutdownHeader(), StatusCode::kOk},
      {*MakeHeader(99), StatusCode::kNotFound},
      {std::nullopt, StatusCode::kAborted}};
  for (const auto& [last, code] : cases) {
    ConnectAgain();
    StartReceiver(/*max_queued_bytes=*/4);
    std::vector<Tensor> arrays;
    for (const int32_t number : expected) {
      arrays.push_back((*sender_registry_->Find(kNumberId))->header);
      arrays.push_back(Number(number));
    }
    if (last.has_value()) arrays.push_back(*last);
    SendRaw(std::move(arrays));
    job_.manager().FindOrCreate(step_id_)->StartAbort(
        absl::AbortedError("stopped"));
    job_.environment().RunAll();
    EXPECT_EQ(Numbers(), expected);
    EXPECT_THAT(ended_, Optional(StatusIs(code, _)));
    EXPECT_EQ(receiver_->statistics(0).status, ended_);
    Disconnect();
    job_.manager().Cleanup(step_id_++);
  }
}

TEST_F(RemoteOutfeedTest, ConnectingFailsAsItsGroupDoes) {
  OutfeedConnection connection = Connection(StreamLink::kReceiver);
  connection.cancellation = std::make_shared<Cancellation>();
  absl::Status status;
  RemoteOutfeedDevice::Connect(
      {.connection = connection, .registry = receiver_registry_},
      [&](auto connected) { status = connected.status(); });
  connection.cancellation->Cancel(absl::CancelledError("enough"));
  job_.environment().RunAll();
  EXPECT_THAT(status, IsCancelled("enough"));
  RemoteOutfeedDevice::Connect(
      {}, [&](auto connected) { status = connected.status(); });
  EXPECT_THAT(status, IsInvalidArgument());
  OutfeedExport::Connect({},
                         [&](auto connected) { status = connected.status(); });
  EXPECT_THAT(status, IsInvalidArgument());
}

TEST_F(RemoteOutfeedTest, ADeviceWithAListenerIsNotExported) {
  const auto local = OutfeedReceiver::Create(
      {.devices = {&sending_device()},
       .callback = [](Device&, uint32_t,
                      absl::Span<Tensor>) { return absl::OkStatus(); },
       .environment = job_.environment().get()});
  ASSERT_THAT((*local)->Start(), IsOk());
  ConnectExport();
  ConnectRemote();
  job_.environment().RunAll();
  EXPECT_THAT(export_status_, IsFailedPrecondition());
  StartReceiver();
  EXPECT_THAT(receiver_->statistics(0).status, IsFailedPrecondition());
}

// Fixture whose sending end posts arbitrary bytes.
class SpoiltParcelsTest : public RemoteOutfeedTest {
 protected:
  void ConnectSpoilt() {
    StreamLink::Connect(StreamLink::kSender, Connection(StreamLink::kSender),
                        [this](auto link) { link_ = *std::move(link); });
    ConnectRemote();
    job_.environment().RunAll();
    link_->WatchEnd([this](const absl::Status& status) { ended_ = status; });
  }

  // Returns the status of a stream that consists of this parcel.
  absl::Status StatusAfter(const std::vector<std::byte>& parcel) {
    ++instance_key_;
    ended_.reset();
    ConnectSpoilt();
    StartReceiver();
    link_->Post(TagOf(StreamTag::kParcel, 0), parcel, [](absl::Status) {});
    job_.environment().RunAll();
    const absl::Status status = receiver_->statistics(0).status;
    EXPECT_EQ(ended_.value_or(absl::OkStatus()), status);
    receiver_.reset();
    link_->End(absl::CancelledError("over"));
    job_.environment().RunAll();
    remote_.reset();
    return status;
  }

  std::shared_ptr<StreamLink> link_;
};

TEST_F(SpoiltParcelsTest, EndTheStreamAtBothEnds) {
  std::vector<std::byte> parcel(kParcelBytes);
  const auto written = [&](auto write) {
    std::fill(parcel.begin(), parcel.end(), std::byte{0});
    ParcelWriter writer(absl::MakeSpan(parcel));
    write(writer);
    writer.Finish();
    return parcel;
  };
  const auto invalid = IsInvalidArgument();
  EXPECT_THAT(StatusAfter(std::vector<std::byte>(kParcelBytes)), invalid);
  EXPECT_THAT(StatusAfter(std::vector<std::byte>(100)), invalid);
  EXPECT_THAT(
      StatusAfter(std::vector<std::byte>(kParcelBytes, std::byte{0xff})),
      invalid);
  EXPECT_THAT(StatusAfter(written([](ParcelWriter& writer) {
                writer.Add(ItemEntry{kNumberId});
              })),
              invalid);
  EXPECT_THAT(StatusAfter(written(
                  [](ParcelWriter& writer) { writer.Add(DefineEntry{0, 0}); })),
              invalid);
  EXPECT_THAT(StatusAfter(written([](ParcelWriter& writer) {
                writer.Add(DefineEntry{77, 1});
                writer.Add(SpecEntry{
                    {DType::kFloat64, TensorShape::Vector(int64_t{1} << 60)}});
                writer.Add(ItemEntry{77});
                writer.Add(LargeEntry());
              })),
              testing::AnyOf(invalid, IsResourceExhausted()));
}

TEST_F(SpoiltParcelsTest, AnOrderlyEndNeedsNoQuestion) {
  std::vector<std::byte> parcel(kParcelBytes);
  ParcelWriter writer(absl::MakeSpan(parcel));
  writer.Add(EndEntry{absl::OkStatus()});
  writer.Finish();
  ConnectSpoilt();
  StartReceiver();
  link_->Post(TagOf(StreamTag::kParcel, 0), parcel, [](absl::Status) {});
  job_.environment().RunAll();
  EXPECT_TRUE(receiver_->statistics(0).has_ended);
  EXPECT_THAT(receiver_->statistics(0).status, IsOk());
}

// The sending end writes such an end if it has no memory for the next parcel.
TEST_F(SpoiltParcelsTest, AnEndInTheMiddleOfAnItemIsTheStatusOfBothEnds) {
  const absl::Status end = absl::ResourceExhaustedError(
      "outfeed of " + sending_device().full_name() + ": no memory");
  const std::vector<std::byte> number(4, std::byte{1});
  std::vector<std::byte> parcel(kParcelBytes);
  ParcelWriter writer(absl::MakeSpan(parcel));
  writer.Add(DefineEntry{77, 2});
  writer.Add(SpecEntry{Int32()});
  writer.Add(SpecEntry{Int32()});
  for (int i = 0; i < 3; ++i) {
    if (i % 2 == 0) writer.Add(ItemEntry{77});
    writer.Add(InlineEntry{number});
  }
  writer.Add(EndEntry{end});
  writer.Finish();
  EXPECT_EQ(StatusAfter(parcel), end);
  EXPECT_THAT(items_, SizeIs(1));  // The whole item.
}

TEST_F(SpoiltParcelsTest, WholeItemsBeforeALostArrayAreDelivered) {
  std::vector<std::byte> parcel(kParcelBytes);
  ParcelWriter writer(absl::MakeSpan(parcel));
  writer.Add(DefineEntry{77, 1});
  writer.Add(SpecEntry{Int32()});
  writer.Add(DefineEntry{kLargeId, 1});
  writer.Add(SpecEntry{{DType::kUint8, TensorShape::Vector(kLargeBytes)}});
  for (int i = 0; i < 5; ++i) {
    writer.Add(ItemEntry{i % 2 == 0 ? 77 : kLargeId});
    if (i % 2 == 0) {
      writer.Add(InlineEntry{std::vector<std::byte>(4)});
    } else {
      writer.Add(LargeEntry());
    }
  }
  writer.Finish();
  const std::vector<std::byte> large(kLargeBytes);
  const std::pair<std::vector<uint64_t>, size_t> cases[] = {
      {{}, 1}, {{0}, 3}, {{1}, 1}, {{1, 0}, 5}};
  for (const auto& [loaned, num_items] : cases) {
    ++instance_key_;
    items_.clear();
    ConnectSpoilt();
    StartReceiver();
    for (const uint64_t number : loaned) {
      link_->Post(TagOf(StreamTag::kLargeArray, number), large,
                  [](absl::Status) {});
    }
    link_->Post(TagOf(StreamTag::kParcel, 0), parcel, [](absl::Status) {});
    link_->End(absl::UnavailableError("lost"));
    job_.environment().RunAll();
    EXPECT_THAT(items_, SizeIs(num_items));
    EXPECT_THAT(ended_, Optional(IsUnavailable()));
    EXPECT_EQ(receiver_->statistics(0).status, ended_);
    receiver_.reset();
    remote_.reset();
  }
}

// The receiving end sends a wrong word.
TEST_F(RemoteOutfeedTest, AWrongCloseWordEndsTheStream) {
  std::shared_ptr<StreamLink> link;
  ConnectExport();
  StreamLink::Connect(StreamLink::kReceiver, Connection(StreamLink::kReceiver),
                      [&](auto connected) { link = *std::move(connected); });
  job_.environment().RunAll();
  const std::vector<std::byte> word(4, std::byte{1});
  link->Post(TagOf(StreamTag::kClose, 0), word, [](absl::Status) {});
  EXPECT_THAT(ended_, Optional(IsInternal()));
  EXPECT_THAT(link->status(), IsInternal());
}

// Delays OnReleased() calls until the test runs them, as another thread may.
struct LateReleases {
  bool are_late = false;
  std::vector<absl::AnyInvocable<void() &&>> late;

  void NotifyAll() {
    are_late = false;
    for (auto& report : std::exchange(late, {})) std::move(report)();
  }
};

class LatePeerAccess : public LocalPeerAccess {
 public:
  explicit LatePeerAccess(std::shared_ptr<LateReleases> releases)
      : releases_(std::move(releases)) {}

  void PostToPeer(const CollGroupMember& peer, const BufKey& key,
                  const Offer& offer) override {
    Offer late = offer;
    late.sender = std::make_unique<Loan>(*releases_, *offer.sender).release();
    LocalPeerAccess::PostToPeer(peer, key, late);
  }

 private:
  // Deletes itself when the transfer ends.
  class Loan : public Sender {
   public:
    Loan(LateReleases& releases, Sender& sender)
        : releases_(releases), sender_(sender) {}
    void OnReleased(int32_t id, absl::Status status) override {
      const std::unique_ptr<Loan> self(this);
      if (!releases_.are_late) return sender_.OnReleased(id, status);
      releases_.late.push_back(
          [&sender = sender_, id, status] { sender.OnReleased(id, status); });
    }

   private:
    LateReleases& releases_;
    Sender& sender_;
  };

  const std::shared_ptr<LateReleases> releases_;
};

// Calls `before_end` before End().
class WatchedChannel : public MemoryChannel {
 public:
  explicit WatchedChannel(std::function<void()> before_end)
      : MemoryChannel("watched", Options()),
        before_end_(std::move(before_end)) {}

  void End(const OutfeedListener& listener, absl::Status status) override {
    before_end_();
    MemoryChannel::End(listener, std::move(status));
  }

 private:
  const std::function<void()> before_end_;
};

class LateReleasesTest : public RemoteOutfeedTest {
 protected:
  LateReleasesTest() : LateReleasesTest(std::make_shared<LateReleases>()) {}

  const std::shared_ptr<LateReleases> releases_;

 private:
  explicit LateReleasesTest(const std::shared_ptr<LateReleases>& releases)
      : RemoteOutfeedTest({.make_peer_access =
                               [releases](int64_t /*step_id*/) {
                                 return std::make_unique<LatePeerAccess>(
                                     releases);
                               }}),
        releases_(releases) {}
};

// Otherwise another export of the device would find a listener there.
TEST_F(LateReleasesTest, AStreamEndsOnceItsChannelIsLeft) {
  sending_device().GiveOutfeedChannel(
      std::make_shared<WatchedChannel>([releases = releases_, &ended = ended_] {
        releases->NotifyAll();
        EXPECT_EQ(ended, std::nullopt);
      }));
  Connect();
  StartReceiver();
  releases_->are_late = true;
  SendNumber(1);
  job_.environment().RunAll();
  ASSERT_THAT(Numbers(), ElementsAre(1));
  ASSERT_FALSE(releases_->late.empty());
  export_.reset();
  EXPECT_TRUE(releases_->late.empty());
  EXPECT_THAT(ended_, Optional(IsCancelled()));
}

// Tests both ends of outfeeds between processes, with threads.

constexpr int kNumItems = 20'000;
constexpr int64_t kPairBytes = 5000;

class RemoteOutfeedConcurrencyTest : public testing::Test {
 protected:
  void Start(int64_t max_queued_bytes, InstanceKey instance_key = 1) {
    num_received_ = 0;
    num_wrong_ = 0;
    pair_ = std::make_unique<RemoteOutfeedPair>(Connection(0, instance_key),
                                                Connection(1, instance_key));
    ASSERT_THAT(
        pair_->registry().Register(kNumberId, {{DType::kInt32, TensorShape()}}),
        IsOk());
    ASSERT_THAT(
        pair_->registry().Register(
            kPairId, {{DType::kInt32, TensorShape()},
                      {DType::kUint8, TensorShape::Vector(kPairBytes)}}),
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
    const Tensor large = Bytes(kPairBytes);
    absl::Status status;
    for (int i = 0; i < num_items && status.ok(); ++i) {
      status = i % 10 == 9 ? sender.SendAndWait(kPairId, {Number(i), large})
                           : sender.SendAndWait(kNumberId, {Number(i)});
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
