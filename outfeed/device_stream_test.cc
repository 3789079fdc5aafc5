// Tests a stream alone. The test plays its channel, and decides the order of
// events.

#include "outfeed/device_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "outfeed/outfeed_testing.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"

namespace tutti {
namespace device_stream_test {

using ::testing::ElementsAre;

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
  EXPECT_THAT(ended_.status, StatusIs(absl::StatusCode::kDataLoss, testing::_));
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

}  // namespace device_stream_test
}  // namespace tutti
