#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tutti/tensor.h"

namespace tutti {
namespace dtype_test {

TEST(DTypeTest, EveryNameParsesBack) {
  for (DType dtype : kAllDTypes) {
    ASSERT_TRUE(ParseDType(Name(dtype)).ok());
    EXPECT_EQ(*ParseDType(Name(dtype)), dtype);
  }
}

TEST(DTypeTest, UnknownNameListsTheKnownOnes) {
  const auto parsed = ParseDType("float8");
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(parsed.status().message()),
              testing::AllOf(testing::HasSubstr("float8"),
                             testing::HasSubstr("bfloat16")));
}

TEST(DTypeTest, NumberThatNamesNoneIsNotValidAndHasNoSize) {
  for (DType dtype : kAllDTypes) EXPECT_TRUE(IsValid(dtype));
  for (int number = kAllDTypes.size(); number < 256; ++number) {
    const auto dtype = static_cast<DType>(number);
    EXPECT_FALSE(IsValid(dtype));
    EXPECT_EQ(SizeOf(dtype), 0u);
    EXPECT_EQ(Name(dtype), "invalid dtype");
    EXPECT_FALSE(IsInteger(dtype) || IsFloating(dtype));
  }
  EXPECT_THAT(std::string(InvalidDType(static_cast<DType>(77)).message()),
              testing::HasSubstr("77"));
}

TEST(DTypeTest, BoolIsNeitherIntegerNorFloating) {
  EXPECT_FALSE(IsInteger(DType::kBool));
  EXPECT_FALSE(IsFloating(DType::kBool));
  EXPECT_TRUE(IsInteger(DType::kInt64));
  EXPECT_TRUE(IsFloating(DType::kFloat16));
}

}  // namespace dtype_test
}  // namespace tutti
