// Tests the end of a receiver in every state of a device and of its callback.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "outfeed/frame.h"
#include "outfeed/outfeed_testing.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace outfeed_shutdown_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
          std::tuple<DeviceState, CallbackState, Ending>> {
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
                  {.capacity_bytes = 1000, .capacity_arrays = 4}};
  int last_number_ = 0;
  std::vector<std::unique_ptr<Outcome>> sent_;
  OutfeedChannel::Tallies blocked_;
  Outcome first_, second_;
};

TEST_P(OutfeedShutdownTest, DeliversWhatWasSentAndThenEnds) {
  const auto [device, callback, ending] = GetParam();
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
                        Ending::kDestruction)));

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
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("shut down before it was started")));
  job_.receiver->Shutdown(nullptr);
}

TEST_F(OutfeedStartTest, IsOnce) {
  job_.Create(100);
  ASSERT_THAT(job_.receiver->Start(), IsOk());
  EXPECT_THAT(job_.receiver->Start(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("started before")));
  job_.SendNumber(0, 1, outcome_.Done());
  EXPECT_THAT(outcome_.status, IsOk());
}

TEST_F(OutfeedStartTest, SendsBeforeItFail) {
  job_.Create(100);
  job_.SendNumber(0, 1, outcome_.Done());
  EXPECT_THAT(outcome_.status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                        HasSubstr("nobody listens")));
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
  const auto is_error = StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("device:CPU:1"));
  EXPECT_THAT(job_.receiver->Start(), is_error);
  Outcome send;
  job_.SendNumber(0, 1, send.Done());
  EXPECT_THAT(send.status, StatusIs(absl::StatusCode::kCancelled,
                                    HasSubstr("was shut down")));
  job_.receiver->Shutdown(outcome_.Done());
  EXPECT_EQ(outcome_.num_calls, 1);
  EXPECT_THAT(outcome_.status, is_error);
  EXPECT_FALSE(other->statistics(0).has_ended);
}

}  // namespace outfeed_shutdown_test
}  // namespace tutti
