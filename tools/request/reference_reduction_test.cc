#include "tools/request/reference_reduction.h"

#include <cstring>

#include "framework/tensor/float16.h"
#include "gtest/gtest.h"

namespace tutti {
namespace reference_reduction_test {

CollectiveSpec Spec(const std::string& reduction) {
  return *ParseCollectiveSpec(
      {.collective = "all_reduce", .reduction = reduction});
}

// Result of reducing one element per rank.
template <typename Element>
Element Reduced(const std::string& reduction, DType dtype,
                const std::vector<Element>& elements) {
  ReferenceReduction reference(Spec(reduction), dtype, 1);
  for (const Element& element : elements) {
    reference.Add(
        {reinterpret_cast<const std::byte*>(&element), sizeof(element)});
  }
  Element result;
  std::memcpy(&result, reference.Result().data(), sizeof(result));
  return result;
}

TEST(ReferenceReductionTest, ReducesFloats) {
  const std::vector<float> elements = {3, -5, 0.5};
  EXPECT_EQ(Reduced("sum", DType::kFloat32, elements), -1.5f);
  EXPECT_EQ(Reduced("avg", DType::kFloat32, elements), -0.5f);
  EXPECT_EQ(Reduced("prod", DType::kFloat32, elements), -7.5f);
  EXPECT_EQ(Reduced("min", DType::kFloat32, elements), -5.0f);
  EXPECT_EQ(Reduced("max", DType::kFloat32, elements), 3.0f);
}

TEST(ReferenceReductionTest, ReducesIntegers) {
  const std::vector<int32_t> elements = {12, -10, 7};
  EXPECT_EQ(Reduced("sum", DType::kInt32, elements), 9);
  EXPECT_EQ(Reduced("avg", DType::kInt32, elements), 3);
  EXPECT_EQ(Reduced("prod", DType::kInt32, elements), -840);
  EXPECT_EQ(Reduced("min", DType::kInt32, elements), -10);
  EXPECT_EQ(Reduced("max", DType::kInt32, elements), 12);
  EXPECT_EQ(Reduced("band", DType::kInt32, elements), 12 & -10 & 7);
  EXPECT_EQ(Reduced("bor", DType::kInt32, elements), 12 | -10 | 7);
  EXPECT_EQ(Reduced("bxor", DType::kInt32, elements), 12 ^ -10 ^ 7);
}

TEST(ReferenceReductionTest, IntegersWrapAround) {
  EXPECT_EQ(Reduced<int8_t>("sum", DType::kInt8, {100, 100}), -56);
  EXPECT_EQ(Reduced<uint8_t>("prod", DType::kUint8, {16, 17}), 16);
  EXPECT_EQ(Reduced<int8_t>("avg", DType::kInt8, {100, 100}), -28);
  EXPECT_EQ(Reduced<int64_t>("sum", DType::kInt64, {INT64_MAX, 1}), INT64_MIN);
  EXPECT_EQ(Reduced<uint16_t>("sum", DType::kUint16, {65535, 2}), 1);
  EXPECT_EQ(Reduced<uint64_t>("sum", DType::kUint64, {UINT64_MAX, 2}), 1u);
}

TEST(ReferenceReductionTest, AveragesOfIntegersTruncateTowardZero) {
  EXPECT_EQ(Reduced<int32_t>("avg", DType::kInt32, {-7, 0}), -3);
  EXPECT_EQ(Reduced<uint8_t>("avg", DType::kUint8, {200, 50}), 125);
  EXPECT_EQ(Reduced<uint64_t>("avg", DType::kUint64, {UINT64_MAX, 0}),
            UINT64_MAX / 2);
}

TEST(ReferenceReductionTest, UnsignedIsNotSigned) {
  EXPECT_EQ(Reduced<uint8_t>("max", DType::kUint8, {200, 100}), 200);
  EXPECT_EQ(Reduced<int8_t>("max", DType::kInt8, {-56, 100}), 100);
  EXPECT_EQ(Reduced<uint64_t>("max", DType::kUint64, {UINT64_MAX, 1}),
            UINT64_MAX);
  EXPECT_EQ(Reduced<int16_t>("min", DType::kInt16, {-1, 1}), -1);
}

TEST(ReferenceReductionTest, ReducesSixteenBitFloats) {
  EXPECT_EQ(
      Float16ToFloat(Reduced<uint16_t>(
          "sum", DType::kFloat16, {FloatToFloat16(1.5f), FloatToFloat16(-4)})),
      -2.5f);
  EXPECT_EQ(
      BFloat16ToFloat(Reduced<uint16_t>(
          "avg", DType::kBFloat16, {FloatToBFloat16(3), FloatToBFloat16(-1)})),
      1.0f);
}

TEST(ReferenceReductionTest, EveryElementIsReducedOnItsOwn) {
  ReferenceReduction reference(Spec("sum"), DType::kUint8, 3);
  for (int rank = 0; rank < 2; ++rank) {
    const std::byte elements[] = {std::byte{1}, std::byte{2}, std::byte{3}};
    reference.Add(elements);
  }
  EXPECT_EQ(reference.Result(),
            (std::vector<std::byte>{std::byte{2}, std::byte{4}, std::byte{6}}));
}

}  // namespace reference_reduction_test
}  // namespace tutti
