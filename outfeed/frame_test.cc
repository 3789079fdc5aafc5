#include "outfeed/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/doubles/status_matchers.h"
#include "tutti/tensor.h"

namespace tutti {
namespace frame_test {

using ::testing::HasSubstr;

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

}  // namespace frame_test
}  // namespace tutti
