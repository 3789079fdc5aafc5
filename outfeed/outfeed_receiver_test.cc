#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "outfeed/device_stream.h"
#include "outfeed/frame.h"
#include "outfeed/outfeed_testing.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/outfeed.h"

namespace tutti {
namespace outfeed_receiver_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kNumberId = OutfeedJob::kNumberId;
constexpr int64_t kNumberBytes = 4;

class OutfeedReceiverTest : public testing::Test {
 protected:
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
  OutfeedJob job_{/*num_devices=*/2, environment_.get()};
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

class ProtocolErrorTest : public OutfeedReceiverTest,
                          public testing::WithParamInterface<BadStream> {};

TEST_P(ProtocolErrorTest, EndsTheStreamOfItsDeviceAlone) {
  Start(/*max_queued_bytes=*/8);
  job_.SendNumber(0, 1);
  job_.SendRaw(0, GetParam().arrays());
  Outcome late, other;
  job_.SendNumber(0, 2);  // Completes a short payload.
  job_.SendNumber(0, 3, late.Done());
  job_.SendNumber(1, 3, other.Done());
  environment_.RunAll();
  const auto is_error =
      StatusIs(GetParam().code, AllOf(HasSubstr(GetParam().message),
                                      HasSubstr("outfeed of /job:localhost")));
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
    testing::Values(
        BadStream{"WrongMarker",
                  [] { return std::vector<Tensor>{BadMarker(), Number(9)}; },
                  absl::StatusCode::kInvalidArgument, "start marker"},
        BadStream{"NoHeader", [] { return std::vector<Tensor>{Number(9)}; },
                  absl::StatusCode::kInvalidArgument, "found int32[]"},
        BadStream{"NotSet", [] { return std::vector<Tensor>{Tensor()}; },
                  absl::StatusCode::kInvalidArgument, "not set"},
        BadStream{"UnknownId",
                  [] { return std::vector<Tensor>{*MakeHeader(9)}; },
                  absl::StatusCode::kNotFound, "consumer id 9"},
        BadStream{"ShortPayload",
                  [] { return std::vector<Tensor>{*MakeHeader(kNumberId)}; },
                  absl::StatusCode::kInvalidArgument,
                  "array 0 of consumer id 1 is int32[], found uint8[8]"},
        BadStream{"WrongPayload",
                  [] {
                    return std::vector<Tensor>{*MakeHeader(kNumberId),
                                               Bytes(4)};
                  },
                  absl::StatusCode::kInvalidArgument, "found uint8[4]"}),
    [](const auto& info) { return std::string(info.param.name); });

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
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(status({.callback = callback}),
              StatusIs(invalid, HasSubstr("needs a device")));
  EXPECT_THAT(status({.devices = {device, nullptr}, .callback = callback}),
              StatusIs(invalid, HasSubstr("device 1")));
  EXPECT_THAT(status({.devices = {device, device}, .callback = callback}),
              StatusIs(invalid, HasSubstr("twice")));
  EXPECT_THAT(status({.devices = {device}}),
              StatusIs(invalid, HasSubstr("needs a callback")));
  EXPECT_THAT(
      status(
          {.devices = {device}, .callback = callback, .max_queued_bytes = 0}),
      StatusIs(invalid, HasSubstr("found 0")));
}

}  // namespace outfeed_receiver_test
}  // namespace tutti
