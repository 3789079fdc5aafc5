#include "framework/reduce/reduction_reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "framework/tensor/float16.h"

namespace tutti {
namespace {

// Reads and writes elements of type Stored in memory as values of type Value.
template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  static T Read(T stored) { return stored; }
  static T Write(T value) { return value; }
};

struct Half : Plain<uint16_t> {
  using Value = float;
  static float Read(uint16_t code) { return Float16ToFloat(code); }
  static uint16_t Write(float value) { return FloatToFloat16(value); }
};

struct Brain : Plain<uint16_t> {
  using Value = float;
  static float Read(uint16_t code) { return BFloat16ToFloat(code); }
  static uint16_t Write(float value) { return FloatToBFloat16(value); }
};

template <class Format>
typename Format::Value ReadElement(const void* elements, size_t index) {
  typename Format::Stored stored;
  std::memcpy(&stored,
              static_cast<const char*>(elements) + index * sizeof(stored),
              sizeof(stored));
  return Format::Read(stored);
}

template <class Format>
void WriteElement(typename Format::Value value, void* elements, size_t index) {
  const typename Format::Stored stored = Format::Write(value);
  std::memcpy(static_cast<char*>(elements) + index * sizeof(stored), &stored,
              sizeof(stored));
}

template <typename T>
T ReduceFloats(ReductionKind kind, T left, T right) {
  const bool left_is_less =
      left < right || (left == right && std::signbit(left));
  T result;
  if (std::isnan(left) || std::isnan(right)) {
    result = std::numeric_limits<T>::quiet_NaN();
  } else if (kind == ReductionKind::kSum) {
    result = left + right;
  } else if (kind == ReductionKind::kProd) {
    result = left * right;
  } else if (kind == ReductionKind::kMin) {
    result = left_is_less ? left : right;
  } else {
    result = left_is_less ? right : left;
  }
  return std::isnan(result) ? std::numeric_limits<T>::quiet_NaN() : result;
}

template <typename T>
T ReduceIntegers(ReductionKind kind, T left, T right) {
  const auto a = static_cast<uint64_t>(left);
  const auto b = static_cast<uint64_t>(right);
  switch (kind) {
    case ReductionKind::kSum:
      return static_cast<T>(a + b);
    case ReductionKind::kProd:
      return static_cast<T>(a * b);
    case ReductionKind::kMin:
      return std::min(left, right);
    case ReductionKind::kMax:
      return std::max(left, right);
    case ReductionKind::kBand:
      return static_cast<T>(a & b);
    case ReductionKind::kBor:
      return static_cast<T>(a | b);
    case ReductionKind::kBxor:
      return static_cast<T>(a ^ b);
  }
  return T{};
}

template <typename T>
T ReduceValues(ReductionKind kind, T left, T right) {
  if constexpr (std::is_integral_v<T>) {
    return ReduceIntegers(kind, left, right);
  } else {
    return ReduceFloats(kind, left, right);
  }
}

template <typename T>
T DivideValue(T value, int64_t divisor) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(value / divisor);
  } else {
    const T quotient = value / static_cast<T>(divisor);
    return std::isnan(quotient) ? std::numeric_limits<T>::quiet_NaN()
                                : quotient;
  }
}

// Calls `function` with the format of `dtype`.
template <class Function>
void WithFormat(DType dtype, Function function) {
  switch (dtype) {
    case DType::kFloat16:
      return function(Half());
    case DType::kBFloat16:
      return function(Brain());
    case DType::kFloat32:
      return function(Plain<float>());
    case DType::kFloat64:
      return function(Plain<double>());
    case DType::kInt8:
      return function(Plain<int8_t>());
    case DType::kUint8:
      return function(Plain<uint8_t>());
    case DType::kInt32:
      return function(Plain<int32_t>());
    case DType::kInt64:
      return function(Plain<int64_t>());
    case DType::kBool:
      return;
  }
}

}  // namespace

void ReferenceReduce(ReductionKind kind, DType dtype, const void* left,
                     const void* right, void* into, size_t num_elements) {
  WithFormat(dtype, [&](auto format) {
    using Format = decltype(format);
    for (size_t i = 0; i < num_elements; ++i) {
      const auto a = ReadElement<Format>(left, i);
      const auto b = ReadElement<Format>(right, i);
      WriteElement<Format>(ReduceValues(kind, a, b), into, i);
    }
  });
}

void ReferenceReduceMany(ReductionKind kind, DType dtype,
                         absl::Span<const uint8_t* const> inputs, void* into,
                         size_t num_elements, int64_t divisor) {
  WithFormat(dtype, [&](auto format) {
    using Format = decltype(format);
    for (size_t i = 0; i < num_elements; ++i) {
      auto value = ReadElement<Format>(inputs[0], i);
      for (const uint8_t* input : inputs.subspan(1)) {
        value = ReduceValues(kind, value, ReadElement<Format>(input, i));
      }
      value = DivideValue(value, divisor);
      WriteElement<Format>(value, into, i);
    }
  });
}

void ReferenceDivideBy(DType dtype, void* values, size_t num_elements,
                       int64_t divisor) {
  WithFormat(dtype, [&](auto format) {
    using Format = decltype(format);
    for (size_t i = 0; i < num_elements; ++i) {
      const auto value = ReadElement<Format>(values, i);
      WriteElement<Format>(DivideValue(value, divisor), values, i);
    }
  });
}

}  // namespace tutti
