#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tutti/tensor.h"

namespace tutti {
namespace dtype_test {

// Numbers on the wire: no line of TUTTI_DTYPES may move.
TEST(DTypeTest, CodesStay) {
  constexpr DType kCodes[] = {
      DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64,
      DType::kInt8,    DType::kUint8,    DType::kInt32,   DType::kInt64,
      DType::kBool,    DType::kInt16,    DType::kUint16,  DType::kUint32,
      DType::kUint64};
  for (size_t i = 0; i < std::size(kCodes); ++i) {
    EXPECT_EQ(static_cast<size_t>(kCodes[i]), i);
    EXPECT_EQ(kAllDTypes[i], kCodes[i]);
  }
}

TEST(DTypeTest, EveryTableCoversEveryDType) {
  const auto sizes = ForEachDType([](auto element) { return sizeof(element); });
  ASSERT_EQ(sizes.size(), kAllDTypes.size());
  std::set<absl::string_view> names;
  for (DType dtype : kAllDTypes) {
    EXPECT_TRUE(names.insert(Name(dtype)).second) << Name(dtype);
    EXPECT_EQ(SizeOf(dtype), sizes[static_cast<size_t>(dtype)]);
    EXPECT_EQ(VisitDType(dtype, [](auto element) { return sizeof(element); }),
              SizeOf(dtype));
    EXPECT_EQ(IsFloating(dtype) + IsInteger(dtype) + (dtype == DType::kBool), 1)
        << Name(dtype);
  }
}

// Names and sizes as in NumPy: "int8" has 8 bits.
TEST(DTypeTest, NamesEndWithTheNumberOfBits) {
  for (DType dtype : kAllDTypes) {
    if (dtype == DType::kBool) continue;
    EXPECT_TRUE(absl::EndsWith(Name(dtype), absl::StrCat(8 * SizeOf(dtype))))
        << Name(dtype);
  }
}

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
