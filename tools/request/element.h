#ifndef TUTTI_TOOLS_REQUEST_ELEMENT_H_
#define TUTTI_TOOLS_REQUEST_ELEMENT_H_

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "framework/tensor/small_floats.h"
#include "tutti/tensor.h"

namespace tutti {

// Loads and stores one element of an array of any dtype. Values pass through a
// type that holds all values of the dtype. `at` needs no alignment.

template <typename Stored>
Stored LoadAs(const std::byte* at) {
  Stored value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

template <typename Stored>
void StoreAs(Stored value, std::byte* at) {
  std::memcpy(at, &value, sizeof(value));
}

// Type of the values of an element type: double, complex, int64_t or uint64_t.
template <typename Element>
using ValueOf = std::conditional_t<
    kIsFloating<Element>, double,
    std::conditional_t<
        kIsComplex<Element>, std::complex<double>,
        std::conditional_t<std::is_signed_v<Element>, int64_t, uint64_t>>>;

// REQUIRES: Value is ValueOf<Element> of the dtype's elements.
template <typename Value>
Value LoadValue(DType dtype, const std::byte* at) {
  return VisitDType(dtype, [at]<typename Element>(Element) -> Value {
    using Stored = std::conditional_t<std::is_same_v<Element, bool>, uint8_t,
                                      Element>;  // A bool may be any byte.
    if constexpr (kIsComplex<Element> == kIsComplex<Value>) {
      return static_cast<Value>(Decode(LoadAs<Stored>(at)));
    } else {
      return {};  // Another dtype's value.
    }
  });
}

// Rounds once per conversion: dtypes of 8 and 16 bits are rounded to float32
// first. A complex element gets the imaginary part 0. REQUIRES:
// IsFloating(dtype) or IsComplex(dtype).
inline void StoreFloating(DType dtype, double value, std::byte* at) {
  VisitDType(dtype, [value, at]<typename Element>(Element) {
    if constexpr (kIsFloating<Element>) StoreAs(Encode<Element>(value), at);
    if constexpr (kIsComplex<Element>) StoreAs(Element(value), at);
  });
}

// Keeps the lower bits of `value`. REQUIRES: IsInteger(dtype) or bool; or an
// element of at most 8 bytes, to be moved.
inline void StoreInteger(DType dtype, int64_t value, std::byte* at) {
  std::memcpy(at, &value, SizeOf(dtype));  // Little-endian.
}

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_ELEMENT_H_
