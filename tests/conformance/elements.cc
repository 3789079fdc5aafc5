#include "tests/conformance/elements.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "framework/tensor/float16.h"

namespace tutti::conformance {
namespace {

// SplitMix64 (Steele, Lea and Flood, 2014): inputs are a large part of the
// suite's work.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t operator()() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

struct FloatFormat {
  int mantissa_bits;
  int exponent_bits;
};

FloatFormat FormatOf(DType dtype) {
  return VisitDType(dtype, []<typename Element>(Element) -> FloatFormat {
    using Limits = FloatLimits<Element>;
    const auto max_exponent = static_cast<unsigned>(Limits::max_exponent);
    return {Limits::digits - 1, static_cast<int>(std::bit_width(max_exponent))};
  });
}

// The code of a number made of random bits.
uint64_t FloatCode(FloatFormat format, Rounding rounding, uint64_t random) {
  const uint64_t all_ones = (uint64_t{1} << format.exponent_bits) - 1;
  const uint64_t one = all_ones / 2;  // The exponent of 1.0.
  const uint64_t choice = random >> 56;
  uint64_t exponent = one - 4 + choice % 8;  // From 1/16 to 16.
  uint64_t mantissa = random & ((uint64_t{1} << format.mantissa_bits) - 1);
  if (choice == 255) exponent = 0;  // Denormal.
  if (choice == 254) exponent = all_ones;
  if (choice == 254 && random % 2 == 0) mantissa = 0;  // Infinity.
  if (rounding == Rounding::kNever) {
    exponent = one + choice % 2;  // 1 or 2.
    mantissa = 0;
  }
  const uint64_t sign = (random >> 55) & 1;
  return ((sign << format.exponent_bits | exponent) << format.mantissa_bits) |
         mantissa;
}

// The lowest bytes come first in memory.
void FillFloats(DType dtype, Rounding rounding, Random& random, Bytes* bytes) {
  const FloatFormat format = FormatOf(dtype);
  const size_t size = SizeOf(dtype);
  for (size_t i = 0; i < bytes->size(); i += size) {
    const uint64_t code = FloatCode(format, rounding, random());
    std::memcpy(bytes->data() + i, &code, size);
  }
}

void FillBits(uint64_t mask, Random& random, Bytes* bytes) {
  for (size_t i = 0; i < bytes->size(); i += sizeof(uint64_t)) {
    const uint64_t word = random() & mask;
    std::memcpy(bytes->data() + i, &word,
                std::min(sizeof(word), bytes->size() - i));
  }
}

}  // namespace

Bytes RandomElements(DType dtype, int64_t num_elements, Rounding rounding,
                     uint64_t seed) {
  Random random(seed);
  Bytes bytes(static_cast<size_t>(num_elements) * SizeOf(dtype));
  if (IsFloating(dtype)) {
    FillFloats(dtype, rounding, random, &bytes);
  } else {
    const bool is_bool = dtype == DType::kBool;
    FillBits(is_bool ? 0x0101010101010101 : ~uint64_t{0}, random, &bytes);
  }
  return bytes;
}

}  // namespace tutti::conformance
