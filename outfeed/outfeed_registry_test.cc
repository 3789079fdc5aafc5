#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "outfeed/frame.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/outfeed.h"

namespace tutti {
namespace outfeed_registry_test {

using ::testing::HasSubstr;
using ::testing::StrEq;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

ArraySpec Floats(int64_t size) {
  return {DType::kFloat32, TensorShape::Vector(size)};
}

TEST(OutfeedRegistryTest, FindsWhatWasRegistered) {
  OutfeedRegistry registry;
  ASSERT_THAT(registry.Register(5, {Floats(3), {DType::kInt8, TensorShape()}}),
              IsOk());
  const auto consumer = registry.Find(5);
  ASSERT_THAT(consumer, IsOk());
  EXPECT_EQ((*consumer)->id, 5U);
  EXPECT_EQ((*consumer)->payload_bytes, 13);
  EXPECT_EQ(*ReadHeader((*consumer)->header), 5U);
  EXPECT_THAT(registry.Find(6),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("6")));
}

TEST(OutfeedRegistryTest, TheSameAgainIsFine) {
  OutfeedRegistry registry;
  ASSERT_THAT(registry.Register(5, {Floats(3)}), IsOk());
  const OutfeedConsumer* consumer = *registry.Find(5);
  EXPECT_THAT(registry.Register(5, {Floats(3)}), IsOk());
  EXPECT_EQ(*registry.Find(5), consumer);
}

TEST(OutfeedRegistryTest, RejectsOtherArraysForAnId) {
  OutfeedRegistry registry;
  ASSERT_THAT(registry.Register(5, {Floats(3)}), IsOk());
  EXPECT_THAT(registry.Register(5, {Floats(3), Floats(4)}),
              StatusIs(kInvalid,
                       StrEq("Shape (float32[3], float32[4]) does not match "
                             "previous shape (float32[3]) used for consumer id "
                             "5")));
  EXPECT_THAT(registry.Register(5, {{DType::kInt32, TensorShape::Vector(3)}}),
              StatusIs(kInvalid, HasSubstr("Shape (int32[3]) does not match")));
  EXPECT_EQ((*registry.Find(5))->payload_bytes, 12);
}

TEST(OutfeedRegistryTest, RejectsTheReservedId) {
  OutfeedRegistry registry;
  EXPECT_THAT(
      registry.Register(0, {Floats(3)}),
      StatusIs(kInvalid, StrEq("Consumer ID cannot be a reserved value: 0")));
}

TEST(OutfeedRegistryTest, RejectsMoreBytesThanCanBeCounted) {
  OutfeedRegistry registry;
  const ArraySpec half{DType::kInt8, TensorShape::Vector(int64_t{1} << 61)};
  EXPECT_THAT(registry.Register(5, {half, half}),
              StatusIs(kInvalid, HasSubstr("more than")));
  EXPECT_THAT(registry.Register(5, {Floats(int64_t{1} << 62)}),
              StatusIs(kInvalid, HasSubstr("64 bits")));
  EXPECT_THAT(registry.Register(5, {half}), IsOk());
}

TEST(OutfeedRegistryTest, ChecksAnArray) {
  OutfeedRegistry registry;
  ASSERT_THAT(registry.Register(5, {{DType::kFloat32, TensorShape()}}), IsOk());
  const OutfeedConsumer& consumer = **registry.Find(5);
  EXPECT_THAT(CheckArray(consumer, 0, *Tensor::Allocate(DType::kFloat32, {})),
              IsOk());
  EXPECT_THAT(CheckArray(consumer, 0, *Tensor::Allocate(DType::kInt32, {})),
              StatusIs(kInvalid, HasSubstr("array 0 of consumer id 5 is "
                                           "float32[], found int32[]")));
  EXPECT_THAT(CheckArray(consumer, 0, Tensor()),
              StatusIs(kInvalid, HasSubstr("not set")));
}

}  // namespace outfeed_registry_test
}  // namespace tutti
