#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "outfeed/device_stream.h"
#include "outfeed/frame.h"
#include "outfeed/outfeed_testing.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"

namespace tutti {
namespace outfeed_ends_test {

using ::testing::ElementsAre;

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
  const std::shared_ptr<DeviceStream> stream_ = DeviceStream::Create(
      {&device_, channel_, registry_, budget_,
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

}  // namespace outfeed_ends_test
}  // namespace tutti
