#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/tensor/float16.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace dtype_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float FloatOf(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t BitsOf(float value) { return std::bit_cast<uint32_t>(value); }

// A 16-bit format, with a reference that shares nothing with the code under
// test. The reference computes values by definition, in double, and rounds by a
// search among them.
struct Format {
  std::string name;
  int exponent_bits, mantissa_bits;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint16_t infinity() const {
    return static_cast<uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits);
  }
  uint16_t quiet_bit() const {
    return static_cast<uint16_t>(1 << (mantissa_bits - 1));
  }
  bool IsNaN(uint16_t code) const { return (code & 0x7FFF) > infinity(); }

  // Value of a code without sign. Infinity gets the power of two after the
  // largest number, which is where rounding reaches it.
  double MagnitudeOf(uint16_t code) const {
    const int exponent = code >> mantissa_bits;
    const int mantissa = code & ((1 << mantissa_bits) - 1);
    if (exponent == 0) {
      return std::ldexp(mantissa, 1 - bias() - mantissa_bits);
    }
    return std::ldexp(mantissa + (1 << mantissa_bits),
                      exponent - bias() - mantissa_bits);
  }
};

// Returns the code in [0, infinity] nearest to `magnitude`; of two, the even
// one.
uint16_t NearestCode(const Format& format, double magnitude) {
  int low = 0, high = format.infinity();
  while (low < high) {  // Finds the first code >= `magnitude`.
    const int middle = (low + high) / 2;
    if (format.MagnitudeOf(static_cast<uint16_t>(middle)) < magnitude) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return 0;
  const auto above = static_cast<uint16_t>(low);
  const auto below = static_cast<uint16_t>(low - 1);
  const double to_above = format.MagnitudeOf(above) - magnitude;
  const double to_below = magnitude - format.MagnitudeOf(below);
  if (to_above == to_below) return above % 2 == 0 ? above : below;
  return to_above < to_below ? above : below;
}

uint16_t ReferenceNarrow(const Format& format, float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  return sign | NearestCode(format, std::abs(static_cast<double>(value)));
}

class Float16Test : public testing::TestWithParam<Format> {
 protected:
  const Format& format() const { return GetParam(); }

  void ExpectNarrowsToNearest(float value) const {
    for (const float signed_value : {value, -value}) {
      ASSERT_EQ(format().narrow(signed_value),
                ReferenceNarrow(format(), signed_value))
          << signed_value << " = 0x" << std::hex << BitsOf(signed_value);
    }
  }
};

TEST_P(Float16Test, WideningIsExactForEveryCode) {
  for (int magnitude = 0; magnitude < format().infinity(); ++magnitude) {
    const auto code = static_cast<uint16_t>(magnitude);
    ASSERT_EQ(format().widen(code), format().MagnitudeOf(code)) << code;
    ASSERT_EQ(format().widen(code | 0x8000), -format().MagnitudeOf(code));
    ASSERT_FALSE(std::signbit(format().widen(code)));
    ASSERT_TRUE(std::signbit(format().widen(code | 0x8000)));
  }
  EXPECT_EQ(format().widen(format().infinity()), kInfinity);
  EXPECT_EQ(format().widen(format().infinity() | 0x8000), -kInfinity);
}

TEST_P(Float16Test, EveryCodeRoundTripsAndOnlyNaNsChangeByBecomingQuiet) {
  for (int bits = 0; bits <= 0xFFFF; ++bits) {
    const auto code = static_cast<uint16_t>(bits);
    const uint16_t quieted =
        format().IsNaN(code) ? code | format().quiet_bit() : code;
    ASSERT_EQ(format().narrow(format().widen(code)), quieted) << bits;
    ASSERT_EQ(std::isnan(format().widen(code)), format().IsNaN(code));
  }
}

TEST_P(Float16Test, NeighboursMidpointsAndTheirNeighboursRoundToNearestEven) {
  for (int code = 0; code < format().infinity(); ++code) {
    const double lower = format().MagnitudeOf(static_cast<uint16_t>(code));
    const double upper = format().MagnitudeOf(static_cast<uint16_t>(code + 1));
    const auto middle = static_cast<float>((lower + upper) / 2);
    ASSERT_EQ(static_cast<double>(middle), (lower + upper) / 2);
    for (const float value :
         {static_cast<float>(lower), std::nextafter(middle, 0.0f), middle,
          std::nextafter(middle, kInfinity)}) {
      ExpectNarrowsToNearest(value);
    }
  }
}

TEST_P(Float16Test, RandomFloatsRoundToNearestEven) {
  std::mt19937 random(20240229);
  for (int i = 0; i < 1'000'000; ++i) {
    const float value = FloatOf(static_cast<uint32_t>(random()));
    if (!std::isnan(value)) ExpectNarrowsToNearest(value);
  }
}

TEST_P(Float16Test, FloatsOutsideTheRangeBecomeInfinityOrZero) {
  EXPECT_EQ(format().narrow(kInfinity), format().infinity());
  EXPECT_EQ(format().narrow(-kInfinity), format().infinity() | 0x8000);
  EXPECT_EQ(format().narrow(std::numeric_limits<float>::max()),
            format().infinity());
  EXPECT_EQ(format().narrow(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(format().narrow(-std::numeric_limits<float>::denorm_min()), 0x8000);
  EXPECT_EQ(format().narrow(-0.0f), 0x8000);
}

TEST_P(Float16Test, NaNStaysAQuietNaNOfItsSign) {
  for (const uint32_t nan :
       {0x7F800001u, 0x7F812345u, 0x7FBFFFFFu, 0x7FC00000u, 0x7FFFFFFFu}) {
    for (const uint32_t sign : {0u, 0x80000000u}) {
      const uint16_t code = format().narrow(FloatOf(sign | nan));
      EXPECT_TRUE(format().IsNaN(code));
      EXPECT_EQ(code & format().quiet_bit(), format().quiet_bit());
      EXPECT_EQ(code & 0x8000, sign >> 16);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Formats, Float16Test,
    testing::Values(Format{"Float16", 5, 10, Float16ToFloat, FloatToFloat16},
                    Format{"BFloat16", 8, 7, BFloat16ToFloat, FloatToBFloat16}),
    [](const auto& info) { return info.param.name; });

TEST(Float16ConstexprTest, ConversionsAreConstantExpressions) {
  static_assert(FloatToFloat16(1.0f) == 0x3C00);
  static_assert(FloatToFloat16(65519.0f) == 0x7BFF);
  static_assert(FloatToFloat16(65520.0f) == 0x7C00);
  static_assert(Float16ToFloat(0x0001) == 0x1p-24f);
  static_assert(FloatToBFloat16(1.0f) == 0x3F80);
  static_assert(BFloat16ToFloat(0x4049) == 3.140625f);
}

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

}  // namespace dtype_test
}  // namespace tutti
