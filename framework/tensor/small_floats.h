#ifndef TUTTI_FRAMEWORK_TENSOR_SMALL_FLOATS_H_
#define TUTTI_FRAMEWORK_TENSOR_SMALL_FLOATS_H_

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tutti/tensor.h"

namespace tutti {

// Conversions, value by value, between float and the codes of dtypes of 8 and
// 16 bits. Widening is exact. Narrowing rounds once, to nearest, ties to even.
// Small values become a denormal or a zero of the same sign. Large values
// become infinity; in 8 bits, infinity and they become the largest finite
// value. A NaN keeps its sign and becomes quiet; in 16 bits it keeps as much of
// its payload as fits.
//
// The bits depend neither on the CPU nor on its rounding or flushing modes.

// IEEE 754 binary16: 1 sign, 5 exponent and 10 mantissa bits.
constexpr float Float16ToFloat(uint16_t code);
constexpr uint16_t FloatToFloat16(float value);

// The upper half of an IEEE 754 binary32: 1 sign, 8 exponent and 7 mantissa
// bits.
constexpr float BFloat16ToFloat(uint16_t code);
constexpr uint16_t FloatToBFloat16(float value);

// Formats of 8 bits (Open Compute Project, "OCP 8-bit Floating Point
// Specification", 2023). Codes are without sign.
struct E4M3FN {
  static constexpr int kMantissaBits = 3;
  static constexpr int kBias = 7;
  static constexpr bool kHasInfinity = false;
  static constexpr uint8_t kLargest = 0x7E;  // 448.
  static constexpr uint8_t kNaN = 0x7F;
};
struct E5M2 {
  static constexpr int kMantissaBits = 2;
  static constexpr int kBias = 15;
  static constexpr bool kHasInfinity = true;  // 0x7C.
  static constexpr uint8_t kLargest = 0x7B;   // 57344.
  static constexpr uint8_t kNaN = 0x7E;
};

template <class Format>
constexpr float Float8ToFloat(uint8_t code);
template <class Format>
constexpr uint8_t FloatToFloat8(float value);

// Value of an element, in the type that computes with it: float for the types
// of 8 and 16 bits.
template <typename Element>
constexpr auto Decode(Element element);

// Inverse of Decode(); rounds once.
template <typename Element, typename Value>
constexpr Element Encode(Value value);

// Limits as in std::numeric_limits, for all floating elements.
template <typename Element>
struct FloatLimits : std::numeric_limits<Element> {};
template <>
struct FloatLimits<Float16> {
  static constexpr int digits = 11;
  static constexpr int max_exponent = 16;
};
template <>
struct FloatLimits<BFloat16> {
  static constexpr int digits = 8;
  static constexpr int max_exponent = 128;
};
template <>
struct FloatLimits<Float8E4M3FN> {
  static constexpr int digits = 4;
  static constexpr int max_exponent = 9;
};
template <>
struct FloatLimits<Float8E5M2> {
  static constexpr int digits = 3;
  static constexpr int max_exponent = 16;
};

// Implementation below.

namespace small_floats_internal {

inline constexpr uint32_t kMagnitudeMask = 0x7FFFFFFF;
inline constexpr uint32_t kInfinity = 0x7F800000;  // In binary32, as below.
inline constexpr uint32_t kQuietBit = 0x00400000;
// Difference of the exponent biases of binary16 and binary32, at its bit
// position.
inline constexpr uint32_t kRebias = (127 - 15) << 23;
// Smallest binary16 that is not denormal: 2^-14.
inline constexpr uint32_t kSmallestNormal = kRebias + (1 << 23);
// First power of two that is too large for binary16: 2^16.
inline constexpr uint32_t kPastLargest = kRebias + (31 << 23);

// Returns value / 2^shift, to nearest, ties to even. REQUIRES: 0 < shift < 32,
// and value < 2^31.
constexpr uint32_t ShiftRightToNearestEven(uint32_t value, int shift) {
  const uint32_t below_half = (uint32_t{1} << (shift - 1)) - 1;
  const uint32_t is_odd = (value >> shift) & 1;
  return (value + below_half + is_odd) >> shift;
}

// Converts the bits of a binary32 below kSmallestNormal into units of 2^-24,
// the smallest binary16.
constexpr uint32_t DenormalFloat16(uint32_t magnitude) {
  const int exponent = static_cast<int>(magnitude >> 23);
  if (exponent < 102) return 0;  // Below half a unit.
  const uint32_t mantissa = (magnitude & 0x007FFFFF) | 0x00800000;
  return ShiftRightToNearestEven(mantissa, 126 - exponent);
}

}  // namespace small_floats_internal

constexpr float Float16ToFloat(uint16_t code) {
  namespace internal = small_floats_internal;
  const uint32_t sign = (code & uint32_t{0x8000}) << 16;
  const uint32_t exponent = (code >> 10) & 0x1F;
  const uint32_t mantissa = code & 0x3FF;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  uint32_t magnitude = (exponent << 23 | mantissa << 13) + internal::kRebias;
  if (exponent == 31) {
    const uint32_t quiet = mantissa == 0 ? 0 : internal::kQuietBit;
    magnitude = internal::kInfinity | mantissa << 13 | quiet;
  }
  return std::bit_cast<float>(sign | magnitude);
}

constexpr uint16_t FloatToFloat16(float value) {
  namespace internal = small_floats_internal;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & internal::kMagnitudeMask;
  const uint32_t sign = (bits >> 16) & 0x8000;
  if (magnitude > internal::kInfinity) {
    return static_cast<uint16_t>(sign | 0x7E00 | ((magnitude >> 13) & 0x3FF));
  }
  if (magnitude >= internal::kPastLargest) {
    return static_cast<uint16_t>(sign | 0x7C00);
  }
  if (magnitude < internal::kSmallestNormal) {
    return static_cast<uint16_t>(sign | internal::DenormalFloat16(magnitude));
  }
  // A mantissa that rounds up past its last bit carries into the exponent. The
  // result is correct, even at infinity.
  const uint32_t rounded =
      internal::ShiftRightToNearestEven(magnitude - internal::kRebias, 13);
  return static_cast<uint16_t>(sign | rounded);
}

constexpr float BFloat16ToFloat(uint16_t code) {
  namespace internal = small_floats_internal;
  const uint32_t bits = uint32_t{code} << 16;
  const bool is_nan = (bits & internal::kMagnitudeMask) > internal::kInfinity;
  return std::bit_cast<float>(is_nan ? bits | internal::kQuietBit : bits);
}

constexpr uint16_t FloatToBFloat16(float value) {
  namespace internal = small_floats_internal;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & internal::kMagnitudeMask;
  if (magnitude > internal::kInfinity) {
    return static_cast<uint16_t>((bits | internal::kQuietBit) >> 16);
  }
  const uint32_t sign = (bits >> 16) & 0x8000;
  return static_cast<uint16_t>(
      sign | internal::ShiftRightToNearestEven(magnitude, 16));
}

template <class Format>
constexpr float Float8ToFloat(uint8_t code) {
  namespace internal = small_floats_internal;
  const uint32_t sign = (code & uint32_t{0x80}) << 24;
  const uint32_t magnitude = code & 0x7F;
  constexpr uint32_t kRebias = uint32_t{127 - Format::kBias} << 23;
  uint32_t bits = (magnitude << (23 - Format::kMantissaBits)) + kRebias;
  if (magnitude >> Format::kMantissaBits == 0) {  // Denormal: without a one.
    const auto one = std::bit_cast<float>(kRebias + (1 << 23));
    bits =
        std::bit_cast<uint32_t>(std::bit_cast<float>(bits + (1 << 23)) - one);
  } else if (magnitude > Format::kLargest) {
    const bool is_nan = !Format::kHasInfinity || magnitude != 0x7C;
    bits = internal::kInfinity | (is_nan ? internal::kQuietBit : 0);
  }
  return std::bit_cast<float>(sign | bits);
}

template <class Format>
constexpr uint8_t FloatToFloat8(float value) {
  namespace internal = small_floats_internal;
  constexpr int kShift = 23 - Format::kMantissaBits;
  constexpr uint32_t kRebias = uint32_t{127 - Format::kBias} << 23;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & internal::kMagnitudeMask;
  const uint32_t sign = (bits >> 24) & 0x80;
  if (magnitude > internal::kInfinity) {
    return static_cast<uint8_t>(sign | Format::kNaN);
  }
  uint32_t code = 0;
  if (magnitude >= kRebias + (1 << 23)) {
    // Carries into the exponent like FloatToFloat16().
    code = internal::ShiftRightToNearestEven(magnitude - kRebias, kShift);
  } else {
    // Units of the smallest denormal. Below half a unit: 0.
    const auto exponent = static_cast<int>(magnitude >> 23);
    const int shift = 128 - Format::kBias + kShift - exponent;
    const uint32_t mantissa = (magnitude & 0x007FFFFF) | 0x00800000;
    if (shift <= 24) {
      code = internal::ShiftRightToNearestEven(mantissa, shift);
    }
  }
  const uint32_t largest = Format::kLargest;
  return static_cast<uint8_t>(sign | (code < largest ? code : largest));
}

template <typename Element>
constexpr auto Decode(Element element) {
  if constexpr (std::is_same_v<Element, Float8E4M3FN>) {
    return Float8ToFloat<E4M3FN>(element.code);
  } else if constexpr (std::is_same_v<Element, Float8E5M2>) {
    return Float8ToFloat<E5M2>(element.code);
  } else if constexpr (std::is_same_v<Element, Float16>) {
    return Float16ToFloat(element.code);
  } else if constexpr (std::is_same_v<Element, BFloat16>) {
    return BFloat16ToFloat(element.code);
  } else {
    return element;
  }
}

template <typename Element, typename Value>
constexpr Element Encode(Value value) {
  if constexpr (std::is_same_v<Element, Float8E4M3FN>) {
    return {FloatToFloat8<E4M3FN>(static_cast<float>(value))};
  } else if constexpr (std::is_same_v<Element, Float8E5M2>) {
    return {FloatToFloat8<E5M2>(static_cast<float>(value))};
  } else if constexpr (std::is_same_v<Element, Float16>) {
    return {FloatToFloat16(static_cast<float>(value))};
  } else if constexpr (std::is_same_v<Element, BFloat16>) {
    return {FloatToBFloat16(static_cast<float>(value))};
  } else {
    return static_cast<Element>(value);
  }
}

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_TENSOR_SMALL_FLOATS_H_
