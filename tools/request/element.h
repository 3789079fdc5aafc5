#ifndef TUTTI_TOOLS_REQUEST_ELEMENT_H_
#define TUTTI_TOOLS_REQUEST_ELEMENT_H_

#include <cstdint>
#include <cstring>

#include "framework/tensor/float16.h"
#include "tutti/tensor.h"

namespace tutti {

// Loads and stores one element of an array of any dtype. Values pass through a
// type that holds all values of the dtype: double for floating dtypes, int64_t
// for the others. `at` needs no alignment.

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

// REQUIRES: IsFloating(dtype).
inline double LoadFloating(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kFloat16:
      return Float16ToFloat(LoadAs<uint16_t>(at));
    case DType::kBFloat16:
      return BFloat16ToFloat(LoadAs<uint16_t>(at));
    case DType::kFloat32:
      return LoadAs<float>(at);
    default:
      return LoadAs<double>(at);
  }
}

// Rounds once per conversion: 16-bit dtypes are rounded to float32 first.
inline void StoreFloating(DType dtype, double value, std::byte* at) {
  switch (dtype) {
    case DType::kFloat16:
      return StoreAs(FloatToFloat16(static_cast<float>(value)), at);
    case DType::kBFloat16:
      return StoreAs(FloatToBFloat16(static_cast<float>(value)), at);
    case DType::kFloat32:
      return StoreAs(static_cast<float>(value), at);
    default:
      return StoreAs(value, at);
  }
}

// REQUIRES: !IsFloating(dtype).
inline int64_t LoadInteger(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kInt8:
      return LoadAs<int8_t>(at);
    case DType::kInt32:
      return LoadAs<int32_t>(at);
    case DType::kInt64:
      return LoadAs<int64_t>(at);
    default:
      return LoadAs<uint8_t>(at);
  }
}

// Keeps the lower bits of `value`.
inline void StoreInteger(DType dtype, int64_t value, std::byte* at) {
  std::memcpy(at, &value, SizeOf(dtype));  // Little-endian.
}

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_ELEMENT_H_
