#include "tutti/outfeed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "outfeed/device_stream.h"
#include "outfeed/frame.h"
#include "outfeed/outfeed_testing.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/environment.h"

namespace tutti {
namespace outfeed_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kNumberId = OutfeedJob::kNumberId;
constexpr int64_t kNumberBytes = 4;

class OutfeedReceiverTest : public testing::Test {
 protected:
  explicit OutfeedReceiverTest(bool on_gpu = false)
      : job_(/*num_devices=*/2, environment_.get(), {}, on_gpu) {}

  void Start(int64_t max_queued_bytes = 1000) {
    job_.Create(max_queued_bytes);
    ASSERT_THAT(job_.receiver->Start(), IsOk());
  }
  absl::Status ShutDown() {
    Outcome outcome;
    job_.receiver->Shutdown(outcome.Done());
    environment_.RunAll();
    EXPECT_EQ(outcome.num_calls, 1);
    return outcome.status;
  }
  absl::Status StatusOf(int device) {
    return job_.receiver->statistics(device).status;
  }

  SimulatedEnvironment environment_{/*seed=*/1};
  OutfeedJob job_;
};

TEST_F(OutfeedReceiverTest, CallsBackWithWhatWasSent) {
  Start();
  Outcome outcome;
  job_.SendNumber(0, 7, outcome.Done());
  EXPECT_EQ(outcome.num_calls, 1);
  EXPECT_THAT(job_.numbers[0], IsEmpty());  // Callbacks need a work.
  environment_.RunAll();
  EXPECT_THAT(job_.numbers[0], ElementsAre(7));
  EXPECT_THAT(job_.numbers[1], IsEmpty());
  EXPECT_EQ(job_.receiver->statistics(0).num_items, 1U);
  EXPECT_THAT(ShutDown(), IsOk());
}

TEST_F(OutfeedReceiverTest, TwoItemsOfOneProgramComeInOrder) {
  Start();
  job_.SendNumber(0, 1);
  job_.SendNumber(0, 2);
  job_.SendNumber(1, 3);
  EXPECT_THAT(ShutDown(), IsOk());
  EXPECT_THAT(job_.numbers[0], ElementsAre(1, 2));
  EXPECT_THAT(job_.numbers[1], ElementsAre(3));
}

TEST_F(OutfeedReceiverTest, TwoProgramsTwoIdsAndOnePayloadAboveTheLimit) {
  Start(/*max_queued_bytes=*/64);
  ASSERT_THAT(
      job_.registry->Register(2, {{DType::kUint8, TensorShape::Vector(1000)},
                                  {DType::kInt32, TensorShape()}}),
      IsOk());
  std::vector<size_t> sizes;
  job_.on_item = [&](int, uint32_t id, absl::Span<Tensor> arrays) {
    sizes.push_back(arrays[0].size_bytes());
    EXPECT_EQ(arrays.size(), id);
    return absl::OkStatus();
  };
  job_.SendNumber(0, 1);
  job_.sender(1).Send(2, {Bytes(1000), Number(5)}, nullptr);
  EXPECT_EQ(job_.receiver->queued_bytes(), kNumberBytes);
  EXPECT_THAT(ShutDown(), IsOk());
  EXPECT_THAT(sizes, ElementsAre(4, 1000));
}

TEST_F(OutfeedReceiverTest, AnItemMayHaveNoArrays) {
  Start();
  ASSERT_THAT(job_.registry->Register(3, {}), IsOk());
  int num_items = 0;
  job_.on_item = [&](int, uint32_t id, absl::Span<Tensor> arrays) {
    num_items += id == 3 && arrays.empty();
    return absl::OkStatus();
  };
  job_.sender(0).Send(3, {}, nullptr);
  job_.sender(0).Send(3, {}, nullptr);
  EXPECT_THAT(ShutDown(), IsOk());
  EXPECT_EQ(num_items, 2);
}

TEST_F(OutfeedReceiverTest, AnItemMayComeInPieces) {
  Start();
  job_.SendRaw(0, {*MakeHeader(kNumberId)});
  environment_.RunAll();
  EXPECT_THAT(job_.numbers[0], IsEmpty());
  job_.SendRaw(0, {Number(8)});
  EXPECT_THAT(ShutDown(), IsOk());
  EXPECT_THAT(job_.numbers[0], ElementsAre(8));
}

// A callback blocks for ten seconds.
TEST_F(OutfeedReceiverTest, HoldsTheLimitToTheByte) {
  OutfeedJob job(/*num_devices=*/2, environment_.get(),
                 {.capacity_bytes = 1000, .capacity_arrays = 4});
  job.Create(/*max_queued_bytes=*/10);
  for (const uint32_t id : {2U, 3U}) {  // Sizes: 2 bytes and 1 byte.
    ASSERT_THAT(job.registry->Register(
                    id, {{DType::kUint8, TensorShape::Vector(4 - id)}}),
                IsOk());
  }
  ASSERT_THAT(job.receiver->Start(), IsOk());
  Outcome fills, in_channel[2], blocked, other_device;
  job.on_item = [&](int, uint32_t, absl::Span<Tensor>) {
    job.on_item = nullptr;
    EXPECT_EQ(job.receiver->queued_bytes(), 4);  // This item's bytes.
    job.SendNumber(0, 2);
    job.sender(0).Send(2, {Bytes(2)}, fills.Done());
    EXPECT_EQ(job.receiver->queued_bytes(), 10);
    for (Outcome& outcome : in_channel) {
      job.sender(0).Send(3, {Bytes(1)}, outcome.Done());
    }
    job.SendNumber(0, 3, blocked.Done());
    job.SendNumber(1, 1, other_device.Done());
    environment_.Advance(absl::Seconds(10));
    EXPECT_EQ(fills.num_calls, 1);
    EXPECT_EQ(in_channel[1].num_calls, 1);
    EXPECT_EQ(blocked.num_calls, 0);
    EXPECT_THAT(job.numbers[1], IsEmpty());
    EXPECT_EQ(job.receiver->queued_bytes(), 10);
    for (const int device : {0, 1}) {
      const OutfeedStatistics statistics = job.receiver->statistics(device);
      EXPECT_EQ(statistics.blocked_time, absl::Seconds(10));
      EXPECT_EQ(statistics.queued_bytes, device == 0 ? 10 : 0);
    }
    return absl::OkStatus();
  };
  job.SendNumber(0, 1);
  environment_.RunAll();
  EXPECT_EQ(blocked.num_calls, 1);
  EXPECT_THAT(blocked.status, IsOk());
  EXPECT_THAT(job.numbers[0], ElementsAre(1, 2, 3));
  EXPECT_THAT(job.numbers[1], ElementsAre(1));
  EXPECT_EQ(job.receiver->queued_bytes(), 0);
  EXPECT_EQ(job.receiver->statistics(0).num_items, 6U);
  EXPECT_EQ(job.receiver->statistics(0).blocked_time, absl::Seconds(10));
}

TEST_F(OutfeedReceiverTest, ASlowCallbackDelaysNoOtherDevice) {
  Start(/*max_queued_bytes=*/100);
  job_.on_item = [&](int device, uint32_t, absl::Span<Tensor>) {
    if (device != 0) return absl::OkStatus();
    job_.SendNumber(0, 2);
    job_.SendNumber(1, 3);
    environment_.RunAll();  // Runs during this callback.
    EXPECT_THAT(job_.numbers[0], ElementsAre(1));
    EXPECT_THAT(job_.numbers[1], ElementsAre(3));
    job_.on_item = nullptr;
    return absl::OkStatus();
  };
  job_.SendNumber(0, 1);
  environment_.RunAll();
  EXPECT_THAT(ShutDown(), IsOk());
  EXPECT_THAT(job_.numbers[0], ElementsAre(1, 2));
}

TEST_F(OutfeedReceiverTest, BoundsItemsWithoutBytes) {
  Start();
  ASSERT_THAT(job_.registry->Register(3, {}), IsOk());
  const OutfeedSender sender = job_.sender(0);
  // Items that fill the queue and the channel.
  const int num_items = DeviceStream::kMaxQueuedItems + 1024;
  Outcome last, blocked;
  for (int i = 1; i < num_items; ++i) sender.Send(3, {}, nullptr);
  sender.Send(3, {}, last.Done());
  sender.Send(3, {}, blocked.Done());
  EXPECT_EQ(last.num_calls, 1);
  EXPECT_EQ(blocked.num_calls, 0);
  EXPECT_THAT(ShutDown(), IsOk());
  EXPECT_THAT(blocked.status, IsOk());
  EXPECT_EQ(job_.receiver->statistics(0).num_items,
            static_cast<uint64_t>(num_items) + 1);
}

// --- Errors ------------------------------------------------------------------

struct BadStream {
  const char* name;
  std::function<std::vector<Tensor>()> arrays;
  absl::StatusCode code;
  const char* message;
};

// The second parameter says whether the devices are on a GPU.
class ProtocolErrorTest
    : public OutfeedReceiverTest,
      public testing::WithParamInterface<std::tuple<BadStream, bool>> {
 protected:
  ProtocolErrorTest() : OutfeedReceiverTest(std::get<1>(GetParam())) {}
};

TEST_P(ProtocolErrorTest, EndsTheStreamOfItsDeviceAlone) {
  const BadStream& bad = std::get<0>(GetParam());
  Start(/*max_queued_bytes=*/8);
  job_.SendNumber(0, 1);
  job_.SendRaw(0, bad.arrays());
  Outcome late, other;
  job_.SendNumber(0, 2);  // Completes a short payload.
  job_.SendNumber(0, 3, late.Done());
  job_.SendNumber(1, 3, other.Done());
  environment_.RunAll();
  const auto is_error = StatusIs(
      bad.code,
      AllOf(HasSubstr(bad.message), HasSubstr("outfeed of /job:localhost")));
  EXPECT_THAT(late.status, is_error);
  EXPECT_THAT(StatusOf(0), is_error);
  EXPECT_TRUE(job_.receiver->statistics(0).has_ended);
  EXPECT_THAT(other.status, IsOk());
  EXPECT_THAT(StatusOf(1), IsOk());
  EXPECT_THAT(job_.numbers[0], ElementsAre(1));  // Item before the error.
  EXPECT_THAT(job_.numbers[1], ElementsAre(3));
  EXPECT_THAT(ShutDown(), is_error);
  EXPECT_EQ(job_.receiver->queued_bytes(), 0);
  Start();  // Uses the same devices.
  job_.SendNumber(0, 4);
  EXPECT_THAT(ShutDown(), IsOk());
  EXPECT_THAT(job_.numbers[0], ElementsAre(1, 4));
}

Tensor BadMarker() {
  Tensor header = *MakeHeader(kNumberId);
  header.mutable_data()[3] = std::byte{1};
  return header;
}

INSTANTIATE_TEST_SUITE_P(
    All, ProtocolErrorTest,
    testing::Combine(
        testing::Values(
            BadStream{
                "WrongMarker",
                [] { return std::vector<Tensor>{BadMarker(), Number(9)}; },
                absl::StatusCode::kInvalidArgument, "start marker"},
            BadStream{"NoHeader", [] { return std::vector<Tensor>{Number(9)}; },
                      absl::StatusCode::kInvalidArgument, "found int32[]"},
            BadStream{"NotSet", [] { return std::vector<Tensor>{Tensor()}; },
                      absl::StatusCode::kInvalidArgument, "not set"},
            BadStream{"UnknownId",
                      [] { return std::vector<Tensor>{*MakeHeader(9)}; },
                      absl::StatusCode::kNotFound, "consumer id 9"},
            BadStream{
                "ShortPayload",
                [] { return std::vector<Tensor>{*MakeHeader(kNumberId)}; },
                absl::StatusCode::kInvalidArgument,
                "array 0 of consumer id 1 is int32[], found uint8[8]"},
            BadStream{"WrongPayload",
                      [] {
                        return std::vector<Tensor>{*MakeHeader(kNumberId),
                                                   Bytes(4)};
                      },
                      absl::StatusCode::kInvalidArgument, "found uint8[4]"}),
        testing::Bool()),
    [](const auto& info) {
      return absl::StrCat(std::get<0>(info.param).name,
                          std::get<1>(info.param) ? "OnGpu" : "");
    });

TEST_F(OutfeedReceiverTest, AShutdownInTheMiddleOfAnItemIsAnError) {
  Start();
  job_.SendRaw(0, {*MakeHeader(kNumberId)});
  EXPECT_THAT(ShutDown(), IsInvalidArgument("found uint8[8]"));
  EXPECT_THAT(StatusOf(1), IsOk());
  EXPECT_EQ(job_.receiver->queued_bytes(), 0);
}

TEST_F(OutfeedReceiverTest, TheShutdownHeaderIsNoPayload) {
  Start();
  ASSERT_THAT(
      job_.registry->Register(2, {{DType::kUint8, TensorShape::Vector(8)}}),
      IsOk());
  job_.SendRaw(0, {*MakeHeader(2)});
  EXPECT_THAT(ShutDown(), IsInvalidArgument("has 1 arrays, found 0"));
  EXPECT_EQ(job_.receiver->statistics(0).num_items, 0U);
}

TEST_F(OutfeedReceiverTest, AProgramMayEndItsDevicesStream) {
  Start();
  job_.SendNumber(0, 1);
  job_.SendRaw(0, {*MakeHeader(kShutdownConsumerId)});
  Outcome late;
  job_.SendNumber(0, 2, late.Done());
  job_.SendNumber(1, 3);
  environment_.RunAll();
  EXPECT_THAT(late.status, IsCancelled("was shut down"));
  EXPECT_TRUE(job_.receiver->statistics(0).has_ended);
  EXPECT_FALSE(job_.receiver->statistics(1).has_ended);
  EXPECT_THAT(ShutDown(), IsOk());
  EXPECT_THAT(job_.numbers[0], ElementsAre(1));
  EXPECT_THAT(job_.numbers[1], ElementsAre(3));
}

// A failure of a callback, and the expected status.
struct Failure {
  std::function<absl::Status()> fail;
  absl::StatusCode code;
  const char* message;
};

TEST_F(OutfeedReceiverTest, ACallbackThatFailsEndsTheStreamOfItsDeviceAlone) {
  const Failure failures[] = {
      {[] { return absl::DataLossError("disk"); }, absl::StatusCode::kDataLoss,
       "the callback failed for an item of consumer id 1: disk"},
      {[]() -> absl::Status { throw std::runtime_error("full"); },
       absl::StatusCode::kInternal, "threw: full"},
      {[]() -> absl::Status { throw 5; }, absl::StatusCode::kInternal,
       "no std::exception"}};
  for (const Failure& failure : failures) {
    job_.numbers.assign(2, {});
    Start(/*max_queued_bytes=*/8);
    job_.on_item = [&](int, uint32_t, absl::Span<Tensor> arrays) {
      return NumberIn(arrays[0]) == 2 ? failure.fail() : absl::OkStatus();
    };
    std::vector<Outcome> outcomes(600);  // Some wait for room.
    for (size_t i = 0; i < outcomes.size(); ++i) {
      job_.SendNumber(0, static_cast<int32_t>(i), outcomes[i].Done());
    }
    job_.SendNumber(1, 1);
    environment_.RunAll();
    const auto is_error = StatusIs(failure.code, HasSubstr(failure.message));
    EXPECT_EQ(outcomes[2].num_calls, 1);
    EXPECT_THAT(outcomes[2].status, IsOk());
    EXPECT_EQ(outcomes.back().num_calls, 1);
    EXPECT_THAT(outcomes.back().status, is_error);
    EXPECT_THAT(StatusOf(0), is_error);
    EXPECT_THAT(StatusOf(1), IsOk());
    EXPECT_THAT(job_.numbers[0], ElementsAre(0, 1, 2));
    EXPECT_THAT(job_.numbers[1], ElementsAre(1));
    EXPECT_EQ(job_.receiver->queued_bytes(), 0);
    EXPECT_THAT(ShutDown(), is_error);
  }
}

TEST_F(OutfeedReceiverTest, RejectsOptionsThatCannotBe) {
  Device* device = job_.devices[0].get();
  const auto callback = [](Device&, uint32_t, absl::Span<Tensor>) {
    return absl::OkStatus();
  };
  const auto status = [&](OutfeedReceiver::Options options) {
    options.environment = environment_.get();
    return OutfeedReceiver::Create(std::move(options)).status();
  };
  EXPECT_THAT(status({.callback = callback}),
              IsInvalidArgument("needs a device"));
  EXPECT_THAT(status({.devices = {device, nullptr}, .callback = callback}),
              IsInvalidArgument("device 1"));
  EXPECT_THAT(status({.devices = {device, device}, .callback = callback}),
              IsInvalidArgument("twice"));
  EXPECT_THAT(status({.devices = {device}}),
              IsInvalidArgument("needs a callback"));
  EXPECT_THAT(
      status(
          {.devices = {device}, .callback = callback, .max_queued_bytes = 0}),
      IsInvalidArgument("found 0"));
}

// Tests the end of a receiver in every state of a device and of its callback.

enum class DeviceState {
  kSilent,
  kSent,
  kPaused,   // The limit is reached, and the channel has more.
  kBlocked,  // The channel is full, too: a transfer waits.
  kInItem,   // The header was sent, the payload was not.
  kBroken,   // Invalid arrays were sent.
};
enum class CallbackState {
  kDue,
  kHasRun,
  kRuns,
  kRunsAndFails,
  kFailed,
  kThrew
};
enum class Ending { kShutdown, kTwice, kDestruction };

class OutfeedShutdownTest
    : public testing::TestWithParam<
          std::tuple<DeviceState, CallbackState, Ending, bool>> {
 protected:
  OutfeedShutdownTest() {
    job_.Create(/*max_queued_bytes=*/8);
    EXPECT_THAT(job_.receiver->Start(), IsOk());
  }

  void Send(int num_items) {
    for (int i = 0; i < num_items; ++i) {
      sent_.push_back(std::make_unique<Outcome>());
      job_.SendNumber(0, ++last_number_, sent_.back()->Done());
    }
  }

  void Reach(DeviceState state) {
    switch (state) {
      case DeviceState::kSilent:
        return;
      case DeviceState::kSent:
        return Send(1);
      case DeviceState::kPaused:
        return Send(3);
      case DeviceState::kBlocked:
        Send(7);
        blocked_ = job_.devices[0]->outfeed_channel()->tallies();
        return;
      case DeviceState::kInItem:
        return job_.SendRaw(0, {*MakeHeader(OutfeedJob::kNumberId)});
      case DeviceState::kBroken:
        return job_.SendRaw(0, {Number(5)});
    }
  }

  void End(Ending ending) {
    if (ending == Ending::kDestruction) return job_.receiver.reset();
    job_.receiver->Shutdown(first_.Done());
    if (ending == Ending::kTwice) job_.receiver->Shutdown(second_.Done());
  }

  // Runs works in an order that the seed decides.
  SimulatedEnvironment environment_{
      static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed())};
  OutfeedJob job_{/*num_devices=*/1,
                  environment_.get(),
                  {.capacity_bytes = 1000, .capacity_arrays = 4},
                  /*on_gpu=*/std::get<3>(GetParam())};
  int last_number_ = 0;
  std::vector<std::unique_ptr<Outcome>> sent_;
  OutfeedChannel::Tallies blocked_;
  Outcome first_, second_;
};

TEST_P(OutfeedShutdownTest, DeliversWhatWasSentAndThenEnds) {
  const auto [device, callback, ending, on_gpu] = GetParam();
  const bool runs = callback == CallbackState::kRuns ||
                    callback == CallbackState::kRunsAndFails;
  const bool fails = callback == CallbackState::kRunsAndFails ||
                     callback == CallbackState::kFailed ||
                     callback == CallbackState::kThrew;
  const bool is_broken =
      device == DeviceState::kInItem || device == DeviceState::kBroken;
  const auto reach_and_end = [&, device = device, ending = ending] {
    Reach(device);
    End(ending);
  };
  if (callback != CallbackState::kDue) {
    job_.on_item = [&, callback = callback](int, uint32_t, absl::Span<Tensor>) {
      job_.on_item = nullptr;
      if (runs) reach_and_end();
      if (callback == CallbackState::kThrew) throw std::runtime_error("bad");
      return fails ? absl::DataLossError("bad") : absl::OkStatus();
    };
    Send(1);
    environment_.RunAll();
  }
  if (!runs) reach_and_end();
  Outcome late;
  job_.SendNumber(0, -1, late.Done());
  environment_.RunAll();

  // Every `done` ran.
  EXPECT_EQ(first_.num_calls, ending == Ending::kDestruction ? 0 : 1);
  EXPECT_EQ(second_.num_calls, ending == Ending::kTwice ? 1 : 0);
  EXPECT_EQ(first_.status.ok() || ending == Ending::kDestruction,
            (!fails && !is_broken) || ending == Ending::kDestruction);
  EXPECT_EQ(late.num_calls, 1);
  EXPECT_FALSE(late.status.ok());
  size_t num_delivered = 0;
  for (const auto& outcome : sent_) {
    EXPECT_EQ(outcome->num_calls, 1);
    num_delivered += outcome->status.ok();
  }
  if (device == DeviceState::kBlocked && (!fails || runs)) {
    EXPECT_GT(blocked_.waiting_transfers, 0U);
  }
  if (fails) {
    num_delivered = 1;
  } else {
    EXPECT_EQ(num_delivered, sent_.size());
  }
  EXPECT_EQ(job_.numbers[0].size(), num_delivered);
  for (size_t i = 0; i < job_.numbers[0].size(); ++i) {
    EXPECT_EQ(job_.numbers[0][i], static_cast<int32_t>(i) + 1);
  }

  // Another receiver can listen to the device.
  job_.numbers[0].clear();
  job_.Create(/*max_queued_bytes=*/8);
  ASSERT_THAT(job_.receiver->Start(), IsOk());
  Outcome again;
  job_.SendNumber(0, 100);
  job_.receiver->Shutdown(again.Done());
  environment_.RunAll();
  EXPECT_EQ(again.num_calls, 1);
  EXPECT_THAT(again.status, IsOk());
  EXPECT_THAT(job_.numbers[0], ElementsAre(100));
}

INSTANTIATE_TEST_SUITE_P(
    All, OutfeedShutdownTest,
    testing::Combine(
        testing::Values(DeviceState::kSilent, DeviceState::kSent,
                        DeviceState::kPaused, DeviceState::kBlocked,
                        DeviceState::kInItem, DeviceState::kBroken),
        testing::Values(CallbackState::kDue, CallbackState::kHasRun,
                        CallbackState::kRuns, CallbackState::kRunsAndFails,
                        CallbackState::kFailed, CallbackState::kThrew),
        testing::Values(Ending::kShutdown, Ending::kTwice,
                        Ending::kDestruction),
        testing::Bool()));

class OutfeedStartTest : public testing::Test {
 protected:
  SimulatedEnvironment environment_{/*seed=*/1};
  OutfeedJob job_{/*num_devices=*/2, environment_.get()};
  Outcome outcome_;
};

TEST_F(OutfeedStartTest, AShutdownBeforeItIsDoneAtOnce) {
  job_.Create(100);
  job_.receiver->Shutdown(outcome_.Done());
  EXPECT_EQ(outcome_.num_calls, 1);
  EXPECT_THAT(outcome_.status, IsOk());
  EXPECT_THAT(job_.receiver->Start(),
              IsFailedPrecondition("shut down before it was started"));
  job_.receiver->Shutdown(nullptr);
}

TEST_F(OutfeedStartTest, IsOnce) {
  job_.Create(100);
  ASSERT_THAT(job_.receiver->Start(), IsOk());
  EXPECT_THAT(job_.receiver->Start(), IsFailedPrecondition("started before"));
  job_.SendNumber(0, 1, outcome_.Done());
  EXPECT_THAT(outcome_.status, IsOk());
}

TEST_F(OutfeedStartTest, SendsBeforeItFail) {
  job_.Create(100);
  job_.SendNumber(0, 1, outcome_.Done());
  EXPECT_THAT(outcome_.status, IsFailedPrecondition("nobody listens"));
}

TEST_F(OutfeedStartTest, FailsWhereADeviceHasAReceiver) {
  OutfeedReceiver::Options options{.devices = {job_.devices[1].get()},
                                   .environment = environment_.get()};
  options.callback = [](Device&, uint32_t, absl::Span<Tensor>) {
    return absl::OkStatus();
  };
  const auto other = *OutfeedReceiver::Create(options);
  ASSERT_THAT(other->Start(), IsOk());
  job_.Create(100);
  const auto is_error = IsFailedPrecondition("device:CPU:1");
  EXPECT_THAT(job_.receiver->Start(), is_error);
  Outcome send;
  job_.SendNumber(0, 1, send.Done());
  EXPECT_THAT(send.status, IsCancelled("was shut down"));
  job_.receiver->Shutdown(outcome_.Done());
  EXPECT_EQ(outcome_.num_calls, 1);
  EXPECT_THAT(outcome_.status, is_error);
  EXPECT_FALSE(other->statistics(0).has_ended);
}

// Tests a stream alone. The test plays its channel, and decides the order of
// events.

// Records the stream's calls.
class FakeChannel : public OutfeedChannel {
 public:
  void TransferToOutfeed(absl::Span<Tensor>, StatusCallback) override {}
  absl::Status TransferFromOutfeed(std::shared_ptr<OutfeedListener>) override {
    return start_status;
  }
  void Resume(const OutfeedListener&) override { ++num_resumed; }
  void Close(const OutfeedListener&, Tensor, absl::Status) override {}
  void End(const OutfeedListener&, absl::Status status) override {
    ends.push_back(std::move(status));
  }
  Tallies tallies() const override { return {}; }

  absl::Status start_status;
  int num_resumed = 0;
  std::vector<absl::Status> ends;
};

class DeviceStreamTest : public testing::Test {
 protected:
  static constexpr uint32_t kId = 1;  // Consumer of one int32: 4 bytes.

  DeviceStreamTest() {
    EXPECT_THAT(registry_->Register(kId, {{DType::kInt32, TensorShape()}}),
                IsOk());
  }

  // A pending work and the stream keep each other alive.
  ~DeviceStreamTest() override { environment_.RunAll(); }

  // Offers the arrays to the stream; returns the number taken.
  size_t Take(std::vector<Tensor> arrays) {
    return stream_->TakeArrays(absl::MakeSpan(arrays));
  }
  Tensor Header() const { return (*registry_->Find(kId))->header; }

  SimulatedEnvironment environment_{/*seed=*/1};
  CpuDevice device_{{.name = {"localhost", 0, 0, "CPU", 0}}};
  const std::shared_ptr<FakeChannel> channel_ = std::make_shared<FakeChannel>();
  const std::shared_ptr<OutfeedRegistry> registry_ =
      std::make_shared<OutfeedRegistry>();
  const std::shared_ptr<ByteBudget> budget_ = std::make_shared<ByteBudget>(8);
  absl::Status result_;  // Returned by the callback.
  std::vector<int32_t> numbers_;
  Outcome ended_;
  const std::shared_ptr<DeviceStream> stream_ = std::make_shared<DeviceStream>(
      DeviceStream::Options{
          &device_, channel_, registry_, budget_,
          std::make_shared<const OutfeedCallback>(
              [this](Device&, uint32_t, absl::Span<Tensor> arrays) {
                numbers_.push_back(NumberIn(arrays[0]));
                return result_;
              }),
          environment_.get()},
      ended_.Done());
};

TEST_F(DeviceStreamTest, TakesArraysAsTheyCome) {
  EXPECT_EQ(Take({Header()}), 1U);
  EXPECT_EQ(budget_->used_bytes(), 4);  // Counts the whole item.
  EXPECT_EQ(Take({Number(1), Header()}), 2U);
  EXPECT_EQ(Take({Number(2)}), 1U);
  environment_.RunAll();
  EXPECT_THAT(numbers_, ElementsAre(1, 2));
  EXPECT_EQ(budget_->used_bytes(), 0);
}

TEST_F(DeviceStreamTest, MovesOutWhatItTakes) {
  std::vector<Tensor> arrays = {Header(), Number(1), Header(), Number(2),
                                Header()};
  EXPECT_EQ(stream_->TakeArrays(absl::MakeSpan(arrays)), 4U);
  for (const Tensor& taken : absl::MakeSpan(arrays).first(4)) {
    EXPECT_FALSE(taken.is_set());
  }
  EXPECT_TRUE(arrays[4].is_set());
}

TEST_F(DeviceStreamTest, LeavesAHeaderThatHasNoRoomAndThenResumes) {
  EXPECT_EQ(Take({Header(), Number(1), Header(), Number(2), Header()}), 4U);
  EXPECT_EQ(Take({Header()}), 0U);
  EXPECT_EQ(channel_->num_resumed, 0);
  environment_.RunSome(1);
  EXPECT_EQ(channel_->num_resumed, 1);
  EXPECT_EQ(stream_->statistics().queued_bytes, 4);  // Granted.
  EXPECT_EQ(Take({Header(), Number(3)}), 2U);
  environment_.RunAll();
  EXPECT_THAT(numbers_, ElementsAre(1, 2, 3));
  EXPECT_EQ(budget_->used_bytes(), 0);
}

TEST_F(DeviceStreamTest, ACallbackThatFailsGivesBackWhatIsUnread) {
  EXPECT_EQ(Take({Header(), Number(1), Header(), Number(2), Header()}), 4U);
  result_ = absl::DataLossError("bad");
  environment_.RunAll();  // The first item's end makes room for the third.
  EXPECT_EQ(channel_->num_resumed, 1);
  EXPECT_THAT(numbers_, ElementsAre(1));
  EXPECT_EQ(budget_->used_bytes(), 0);
  EXPECT_EQ(Take({Header(), Number(3)}), 0U);
  EXPECT_EQ(ended_.num_calls, 1);
  EXPECT_THAT(ended_.status, IsDataLoss());
}

TEST_F(DeviceStreamTest, ACallbackThatFailsWaitsForNoRoom) {
  ASSERT_THAT(registry_->Register(2, {{DType::kInt8, TensorShape::Vector(8)}}),
              IsOk());
  EXPECT_EQ(Take({Header(), Number(1)}), 2U);
  ASSERT_TRUE(budget_->TryTake(4));  // Taken by another device.
  EXPECT_EQ(Take({(*registry_->Find(2))->header}), 0U);
  result_ = absl::DataLossError("bad");
  environment_.RunAll();
  EXPECT_EQ(ended_.num_calls, 1);
  EXPECT_TRUE(budget_->TryTake(4));  // Nobody waits.
  EXPECT_EQ(channel_->num_resumed, 0);
}

TEST_F(DeviceStreamTest, AnEndLeavesTheChannelFirst) {
  EXPECT_EQ(Take({Header(), Number(1), Number(2)}), 2U);
  ASSERT_EQ(channel_->ends.size(), 1U);
  EXPECT_EQ(ended_.num_calls, 0);  // An item is not delivered yet.
  EXPECT_FALSE(stream_->statistics().has_ended);
  environment_.RunAll();
  EXPECT_EQ(ended_.num_calls, 1);
  EXPECT_EQ(ended_.status, channel_->ends[0]);
  EXPECT_THAT(numbers_, ElementsAre(1));
}

TEST_F(DeviceStreamTest, DoesNotEndIfItDoesNotStart) {
  channel_->start_status = absl::FailedPreconditionError("taken");
  EXPECT_EQ(stream_->Start(), channel_->start_status);
  environment_.RunAll();
  EXPECT_EQ(ended_.num_calls, 0);
}

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

class OutfeedOrderTest
    : public testing::TestWithParam<std::tuple<int64_t, bool>> {
 protected:
  static constexpr int kNumDevices = 4;
};

TEST_P(OutfeedOrderTest, IsThatOfTheDevice) {
  const auto [max_queued_bytes, on_gpu] = GetParam();
  const int num_items = on_gpu ? 5000 : 1'000'000;  // All devices together.
  SimulatedEnvironment environment(/*seed=*/7);
  LateQueue queue(environment.get());
  OutfeedJob job(kNumDevices,
                 {&queue, environment.get().clock, environment.get().random},
                 {}, on_gpu);
  job.Create(max_queued_bytes);
  ASSERT_THAT(job.receiver->Start(), IsOk());
  std::vector<OutfeedSender> senders;
  for (int i = 0; i < kNumDevices; ++i) senders.push_back(job.sender(i));
  std::vector<int32_t> num_sent(kNumDevices);
  std::vector<int> num_waiting(kNumDevices);
  Random& random = *environment.get().random;
  for (int i = 0; i < num_items; ++i) {
    const size_t device = random.Next() % kNumDevices;
    while (num_waiting[device] > 0) environment.Advance(absl::Microseconds(10));
    ++num_waiting[device];
    senders[device].Send(
        OutfeedJob::kNumberId,
        {job.NumberOn(static_cast<int>(device), num_sent[device]++)},
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

INSTANTIATE_TEST_SUITE_P(
    Limits, OutfeedOrderTest,
    testing::Combine(testing::Values(64, int64_t{256} << 20), testing::Bool()));

}  // namespace outfeed_test
}  // namespace tutti
