#include "framework/reduce/reduction_reference_testing.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/numeric/int128.h"
#include "framework/tensor/small_floats.h"

namespace tutti {
namespace {

template <typename Element>
auto ReadElement(const void* elements, size_t index) {
  if constexpr (std::is_same_v<Element, bool>) {  // May be any byte.
    return static_cast<const uint8_t*>(elements)[index] != 0;
  }
  Element stored;
  std::memcpy(&stored,
              static_cast<const char*>(elements) + index * sizeof(stored),
              sizeof(stored));
  return Decode(stored);
}

template <typename Element, typename Value>
void WriteElement(Value value, void* elements, size_t index) {
  const auto stored = Encode<Element>(value);
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
T Canonical(T value) {
  return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
}

template <typename T>
std::complex<T> ReduceComplex(ReductionKind kind, std::complex<T> left,
                              std::complex<T> right) {
  const auto [a, b] = std::pair(left.real(), left.imag());
  const auto [c, d] = std::pair(right.real(), right.imag());
  if (kind == ReductionKind::kSum) {
    return {Canonical(a + c), Canonical(b + d)};
  }
  const T ac = a * c, bd = b * d, ad = a * d, bc = b * c;
  return {Canonical(ac - bd), Canonical(ad + bc)};
}

bool ReduceBools(ReductionKind kind, bool left, bool right) {
  switch (kind) {
    case ReductionKind::kMin:
    case ReductionKind::kBand:
      return left && right;
    case ReductionKind::kMax:
    case ReductionKind::kBor:
      return left || right;
    default:
      return left != right;
  }
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
  if constexpr (kIsComplex<T>) {
    return ReduceComplex(kind, left, right);
  } else if constexpr (std::is_same_v<T, bool>) {
    return ReduceBools(kind, left, right);
  } else if constexpr (std::is_integral_v<T>) {
    return ReduceIntegers(kind, left, right);
  } else {
    return ReduceFloats(kind, left, right);
  }
}

template <typename T>
T DivideValue(T value, int64_t divisor) {
  if constexpr (kIsComplex<T>) {
    return T(DivideValue(value.real(), divisor),
             DivideValue(value.imag(), divisor));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value;  // Never divided.
  } else if constexpr (std::is_unsigned_v<T>) {
    return static_cast<T>(value / static_cast<uint64_t>(divisor));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(value / divisor);
  } else {
    const T quotient = value / static_cast<T>(divisor);
    return std::isnan(quotient) ? std::numeric_limits<T>::quiet_NaN()
                                : quotient;
  }
}

// The exact mean, truncated toward zero.
template <typename T>
T MeanOfIntegers(absl::Span<const uint8_t* const> inputs, size_t index,
                 int64_t divisor) {
  absl::int128 sum = 0;
  for (const uint8_t* input : inputs) sum += ReadElement<T>(input, index);
  return static_cast<T>(sum / divisor);
}

template <typename T>
T MultiplyValue(T value, double factor) {
  if constexpr (kIsComplex<T>) {
    return T(MultiplyValue(value.real(), factor),
             MultiplyValue(value.imag(), factor));
  } else if constexpr (std::is_integral_v<T>) {
    return value;  // Never multiplied.
  } else {
    return Canonical(value * static_cast<T>(factor));
  }
}

}  // namespace

void ReferenceReduce(ReductionKind kind, DType dtype, const void* left,
                     const void* right, void* into, size_t num_elements) {
  VisitDType(dtype, [&]<typename Element>(Element) {
    for (size_t i = 0; i < num_elements; ++i) {
      const auto a = ReadElement<Element>(left, i);
      const auto b = ReadElement<Element>(right, i);
      WriteElement<Element>(ReduceValues(kind, a, b), into, i);
    }
  });
}

void ReferenceReduceMany(ReductionKind kind, DType dtype,
                         absl::Span<const uint8_t* const> inputs, void* into,
                         size_t num_elements, int64_t divisor) {
  VisitDType(dtype, [&]<typename Element>(Element) {
    for (size_t i = 0; i < num_elements; ++i) {
      if constexpr (kIsInteger<Element>) {
        if (kind == ReductionKind::kSum && divisor != 1) {
          WriteElement<Element>(MeanOfIntegers<Element>(inputs, i, divisor),
                                into, i);
          continue;
        }
      }
      auto value = ReadElement<Element>(inputs[0], i);
      for (const uint8_t* input : inputs.subspan(1)) {
        value = ReduceValues(kind, value, ReadElement<Element>(input, i));
      }
      value = DivideValue(value, divisor);
      WriteElement<Element>(value, into, i);
    }
  });
}

void ReferenceDivideBy(DType dtype, void* values, size_t num_elements,
                       int64_t divisor) {
  if (dtype == DType::kBool) return;
  VisitDType(dtype, [&]<typename Element>(Element) {
    for (size_t i = 0; i < num_elements; ++i) {
      const auto value = ReadElement<Element>(values, i);
      WriteElement<Element>(DivideValue(value, divisor), values, i);
    }
  });
}

void ReferenceMultiplyBy(DType dtype, void* values, size_t num_elements,
                         double factor) {
  VisitDType(dtype, [&]<typename Element>(Element) {
    for (size_t i = 0; i < num_elements; ++i) {
      const auto value = ReadElement<Element>(values, i);
      WriteElement<Element>(MultiplyValue(value, factor), values, i);
    }
  });
}

}  // namespace tutti
