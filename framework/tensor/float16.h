#ifndef TUTTI_FRAMEWORK_TENSOR_FLOAT16_H_
#define TUTTI_FRAMEWORK_TENSOR_FLOAT16_H_

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tutti/tensor.h"

namespace tutti {

// Conversions, value by value, between float and the codes of the 16-bit
// dtypes. Widening is exact. Narrowing rounds once, to nearest, ties to even.
// Large values become infinity; small values become a denormal or a zero of the
// same sign. A NaN keeps its sign, becomes quiet, and keeps as much of its
// payload as fits.
//
// The bits depend neither on the CPU nor on its rounding or flushing modes.

// IEEE 754 binary16: 1 sign, 5 exponent and 10 mantissa bits.
constexpr float Float16ToFloat(uint16_t code);
constexpr uint16_t FloatToFloat16(float value);

// The upper half of an IEEE 754 binary32: 1 sign, 8 exponent and 7 mantissa
// bits.
constexpr float BFloat16ToFloat(uint16_t code);
constexpr uint16_t FloatToBFloat16(float value);

// Value of an element, in the type that computes with it: float for the 16-bit
// types.
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

// Implementation below.

namespace float16_internal {

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

}  // namespace float16_internal

constexpr float Float16ToFloat(uint16_t code) {
  namespace internal = float16_internal;
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
  namespace internal = float16_internal;
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
  namespace internal = float16_internal;
  const uint32_t bits = uint32_t{code} << 16;
  const bool is_nan = (bits & internal::kMagnitudeMask) > internal::kInfinity;
  return std::bit_cast<float>(is_nan ? bits | internal::kQuietBit : bits);
}

constexpr uint16_t FloatToBFloat16(float value) {
  namespace internal = float16_internal;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & internal::kMagnitudeMask;
  if (magnitude > internal::kInfinity) {
    return static_cast<uint16_t>((bits | internal::kQuietBit) >> 16);
  }
  const uint32_t sign = (bits >> 16) & 0x8000;
  return static_cast<uint16_t>(
      sign | internal::ShiftRightToNearestEven(magnitude, 16));
}

template <typename Element>
constexpr auto Decode(Element element) {
  if constexpr (std::is_same_v<Element, Float16>) {
    return Float16ToFloat(element.code);
  } else if constexpr (std::is_same_v<Element, BFloat16>) {
    return BFloat16ToFloat(element.code);
  } else {
    return element;
  }
}

template <typename Element, typename Value>
constexpr Element Encode(Value value) {
  if constexpr (std::is_same_v<Element, Float16>) {
    return {FloatToFloat16(static_cast<float>(value))};
  } else if constexpr (std::is_same_v<Element, BFloat16>) {
    return {FloatToBFloat16(static_cast<float>(value))};
  } else {
    return static_cast<Element>(value);
  }
}

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_TENSOR_FLOAT16_H_
