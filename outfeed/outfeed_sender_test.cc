#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "outfeed/outfeed_testing.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/outfeed.h"

namespace tutti {
namespace outfeed_sender_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OutfeedSenderTest : public testing::Test {
 protected:
  OutfeedSenderTest() {
    job_.Create(/*max_queued_bytes=*/100);
    EXPECT_THAT(job_.receiver->Start(), IsOk());
  }

  SimulatedEnvironment environment_{/*seed=*/1};
  OutfeedJob job_{/*num_devices=*/1, environment_.get()};
};

TEST_F(OutfeedSenderTest, RejectsAnIdThatIsNotRegistered) {
  EXPECT_THAT(job_.sender(0).SendAndWait(9, {Number(1)}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("consumer id 9 was not registered")));
  EXPECT_THAT(job_.sender(0).SendAndWait(0, {}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("0")));
}

TEST_F(OutfeedSenderTest, RejectsOtherArraysThanRegistered) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(job_.sender(0).SendAndWait(1, {}),
              StatusIs(invalid, HasSubstr("has 1 arrays, found 0")));
  EXPECT_THAT(job_.sender(0).SendAndWait(1, {Bytes(4)}),
              StatusIs(invalid, HasSubstr("is int32[], found uint8[4]")));
  EXPECT_THAT(job_.sender(0).SendAndWait(1, {Tensor()}),
              StatusIs(invalid, HasSubstr("not set")));
  environment_.RunAll();
  EXPECT_EQ(job_.receiver->statistics(0).num_items, 0U);
  EXPECT_THAT(job_.receiver->statistics(0).status, IsOk());
}

TEST_F(OutfeedSenderTest, SendsManyItemsAtOnce) {
  const OutfeedSender sender = job_.sender(0);
  std::vector<Tensor> batch;
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(sender.AddItem(1, {Number(i)}, batch), IsOk());
  }
  EXPECT_THAT(sender.AddItem(1, {}, batch),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1")));
  Outcome outcome;
  sender.channel().TransferToOutfeed(absl::MakeSpan(batch), outcome.Done());
  environment_.RunAll();
  EXPECT_THAT(outcome.status, IsOk());
  EXPECT_THAT(job_.numbers[0], ElementsAre(0, 1, 2));
}

TEST_F(OutfeedSenderTest, TheCallbackGetsTheSameMemory) {
  int32_t value = 7;
  bool is_free = false;
  const std::byte* seen = nullptr;
  job_.on_item = [&](int, uint32_t, absl::Span<Tensor> arrays) {
    seen = arrays[0].data();
    EXPECT_FALSE(is_free);
    return absl::OkStatus();
  };
  EXPECT_THAT(job_.sender(0).SendAndWait(
                  1, {*Tensor::Wrap(DType::kInt32, TensorShape(), &value,
                                    [&is_free] { is_free = true; })}),
              IsOk());
  environment_.RunAll();
  EXPECT_EQ(seen, reinterpret_cast<const std::byte*>(&value));
  EXPECT_TRUE(is_free);
}

}  // namespace outfeed_sender_test
}  // namespace tutti
