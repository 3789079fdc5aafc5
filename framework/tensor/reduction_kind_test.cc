#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tutti/reduction.h"

namespace tutti {
namespace reduction_kind_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr ReductionKind kBitOperations[] = {
    ReductionKind::kBand, ReductionKind::kBor, ReductionKind::kBxor};
constexpr ReductionKind kArithmetic[] = {
    ReductionKind::kSum, ReductionKind::kProd, ReductionKind::kMin,
    ReductionKind::kMax};

TEST(ReductionKindTest, EveryNameParsesBack) {
  for (ReductionKind kind : kAllReductionKinds) {
    ASSERT_TRUE(ParseReductionKind(Name(kind)).ok()) << Name(kind);
    EXPECT_EQ(*ParseReductionKind(Name(kind)), kind);
  }
}

TEST(ReductionKindTest, UnknownNameListsTheKnownOnes) {
  const auto parsed = ParseReductionKind("avg");
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(parsed.status().message()),
      AllOf(HasSubstr("avg"), HasSubstr("sum, prod"), HasSubstr("bxor")));
}

TEST(ReductionKindTest, IntegersSupportEveryKind) {
  for (DType dtype : kAllDTypes) {
    if (!IsInteger(dtype)) continue;
    for (ReductionKind kind : kAllReductionKinds) {
      EXPECT_TRUE(CheckSupported(kind, dtype).ok())
          << Name(kind) << " " << Name(dtype);
    }
  }
}

TEST(ReductionKindTest, FloatsSupportArithmeticButNoBitOperation) {
  for (DType dtype : kAllDTypes) {
    if (!IsFloating(dtype)) continue;
    for (ReductionKind kind : kArithmetic) {
      EXPECT_TRUE(CheckSupported(kind, dtype).ok());
    }
    for (ReductionKind kind : kBitOperations) {
      EXPECT_EQ(CheckSupported(kind, dtype).code(),
                absl::StatusCode::kInvalidArgument);
    }
  }
}

TEST(ReductionKindTest, BoolSupportsNoKind) {
  for (ReductionKind kind : kAllReductionKinds) {
    EXPECT_EQ(CheckSupported(kind, DType::kBool).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(ReductionKindTest, NumberThatNamesNoneIsNotValidAndSupportsNothing) {
  for (ReductionKind kind : kAllReductionKinds) {
    EXPECT_TRUE(IsValid(kind));
    EXPECT_EQ(CheckSupported(kind, static_cast<DType>(77)).code(),
              absl::StatusCode::kInvalidArgument);
  }
  for (int number = kAllReductionKinds.size(); number < 256; ++number) {
    const auto kind = static_cast<ReductionKind>(number);
    EXPECT_FALSE(IsValid(kind));
    EXPECT_EQ(Name(kind), "invalid reduction");
    const absl::Status status = CheckSupported(kind, DType::kInt32);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(std::to_string(number)));
  }
}

TEST(ReductionKindTest, UnsupportedPairIsNamedInTheError) {
  EXPECT_THAT(
      std::string(
          CheckSupported(ReductionKind::kBxor, DType::kBFloat16).message()),
      AllOf(HasSubstr("bxor"), HasSubstr("bfloat16")));
  EXPECT_THAT(
      std::string(CheckSupported(ReductionKind::kMax, DType::kBool).message()),
      AllOf(HasSubstr("max"), HasSubstr("bool")));
}

}  // namespace reduction_kind_test
}  // namespace tutti
