#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "tests/doubles/status_matchers.h"
#include "tutti/tensor.h"

namespace tutti {
namespace tensor_shape_test {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kHuge = int64_t{1} << 40;

TEST(TensorShapeTest, AScalarHasOneElement) {
  const TensorShape scalar;
  EXPECT_EQ(scalar.num_dims(), 0);
  EXPECT_EQ(scalar.num_elements(), 1);
  EXPECT_EQ(scalar.ToString(), "[]");
  const auto created = TensorShape::Create({});
  ASSERT_THAT(created, IsOk());
  EXPECT_EQ(*created, scalar);
}

TEST(TensorShapeTest, CountsTheElements) {
  const auto shape = TensorShape::Create({2, 3, 5});
  ASSERT_THAT(shape, IsOk());
  EXPECT_EQ(shape->num_elements(), 30);
  EXPECT_EQ(shape->dim(1), 3);
  EXPECT_THAT(shape->dims(), ElementsAre(2, 3, 5));
  EXPECT_EQ(shape->ToString(), "[2,3,5]");
}

TEST(TensorShapeTest, ANegativeDimensionIsInvalidAndShown) {
  EXPECT_THAT(
      TensorShape::Create({2, -3}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[2,-3]")));
}

TEST(TensorShapeTest, MoreElementsThan64BitsCountAreInvalidAndShown) {
  EXPECT_THAT(TensorShape::Create({kHuge, kHuge}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("[1099511627776,1099511627776]")));
  EXPECT_THAT(
      TensorShape::Create({std::numeric_limits<int64_t>::max(), 2}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("64 bits")));
}

TEST(TensorShapeTest, AsManyElementsAs64BitsCountAreFine) {
  const auto shape =
      TensorShape::Create({std::numeric_limits<int64_t>::max(), 1});
  ASSERT_THAT(shape, IsOk());
  EXPECT_EQ(shape->num_elements(), std::numeric_limits<int64_t>::max());
}

TEST(TensorShapeTest, AZeroDimensionMakesItEmpty) {
  const auto shape = TensorShape::Create({7, 0, 3});
  ASSERT_THAT(shape, IsOk());
  EXPECT_EQ(shape->num_elements(), 0);
  EXPECT_EQ(shape->dim(2), 3);
}

// An empty tensor's row size is also used in computations.
TEST(TensorShapeTest, TheOtherDimensionsOfAnEmptyShapeMustFit64Bits) {
  for (const auto& dims : {std::vector<int64_t>{0, kHuge, kHuge},
                           {kHuge, kHuge, 0},
                           {kHuge, 0, kHuge}}) {
    EXPECT_THAT(
        TensorShape::Create(dims),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("64 bits")));
  }
}

TEST(TensorShapeTest, AVectorHasOneDimension) {
  EXPECT_EQ(TensorShape::Vector(5).num_elements(), 5);
  EXPECT_THAT(TensorShape::Vector(5).dims(), ElementsAre(5));
  EXPECT_EQ(TensorShape::Vector(0).num_elements(), 0);
}

TEST(TensorShapeTest, AVectorOfNegativeSizeIsEmpty) {
  EXPECT_EQ(TensorShape::Vector(-5), TensorShape::Vector(0));
}

TEST(TensorShapeTest, TheFirstDimensionMayBeReplaced) {
  const auto shape = TensorShape::Create({2, 3});
  ASSERT_THAT(shape, IsOk());
  const auto taller = shape->WithFirstDim(7);
  ASSERT_THAT(taller, IsOk());
  EXPECT_THAT(taller->dims(), ElementsAre(7, 3));
  EXPECT_EQ(taller->num_elements(), 21);
  EXPECT_THAT(shape->dims(), ElementsAre(2, 3));
}

TEST(TensorShapeTest, TheReplacedDimensionIsChecked) {
  const auto shape = TensorShape::Create({2, kHuge});
  ASSERT_THAT(shape, IsOk());
  EXPECT_THAT(shape->WithFirstDim(-1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[-1,")));
  EXPECT_THAT(
      shape->WithFirstDim(kHuge),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("64 bits")));
  EXPECT_THAT(
      TensorShape().WithFirstDim(1),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("scalar")));
}

TEST(TensorShapeTest, ShapesAreEqualIfTheirDimensionsAre) {
  EXPECT_EQ(*TensorShape::Create({6}), TensorShape::Vector(6));
  EXPECT_FALSE(*TensorShape::Create({2, 3}) == *TensorShape::Create({3, 2}));
  EXPECT_FALSE(*TensorShape::Create({1}) == TensorShape());
}

}  // namespace tensor_shape_test
}  // namespace tutti
