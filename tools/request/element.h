#ifndef TUTTI_TOOLS_REQUEST_ELEMENT_H_
#define TUTTI_TOOLS_REQUEST_ELEMENT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "framework/tensor/float16.h"
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

// Type of the values of an element type: double, int64_t or uint64_t.
template <typename Element>
using ValueOf = std::conditional_t<
    kIsFloating<Element>, double,
    std::conditional_t<std::is_signed_v<Element>, int64_t, uint64_t>>;

// REQUIRES: Value is ValueOf the dtype's elements.
template <typename Value>
Value LoadValue(DType dtype, const std::byte* at) {
  return VisitDType(dtype, [at]<typename Element>(Element) {
    using Stored = std::conditional_t<std::is_same_v<Element, bool>, uint8_t,
                                      Element>;  // A bool may be any byte.
    return static_cast<Value>(Decode(LoadAs<Stored>(at)));
  });
}

// Rounds once per conversion: 16-bit dtypes are rounded to float32 first.
// REQUIRES: IsFloating(dtype).
inline void StoreFloating(DType dtype, double value, std::byte* at) {
  VisitDType(dtype, [value, at]<typename Element>(Element) {
    if constexpr (kIsFloating<Element>) StoreAs(Encode<Element>(value), at);
  });
}

// Keeps the lower bits of `value`. REQUIRES: !IsFloating(dtype).
inline void StoreInteger(DType dtype, int64_t value, std::byte* at) {
  std::memcpy(at, &value, SizeOf(dtype));  // Little-endian.
}

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_ELEMENT_H_
