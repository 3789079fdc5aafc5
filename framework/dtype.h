#ifndef TUTTI_FRAMEWORK_DTYPE_H_
#define TUTTI_FRAMEWORK_DTYPE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tutti {

// The element types that collectives move. All are reduced too, except kBool,
// which is only moved.
enum class DType : uint8_t {
  kFloat16,   // IEEE 754 binary16.
  kBFloat16,  // The upper half of an IEEE 754 binary32.
  kFloat32,
  kFloat64,
  kInt8,
  kUint8,
  kInt32,
  kInt64,
  kBool,  // One byte, 0 or 1.
};

inline constexpr std::array<DType, 9> kAllDTypes = {
    DType::kFloat16, DType::kBFloat16, DType::kFloat32,
    DType::kFloat64, DType::kInt8,     DType::kUint8,
    DType::kInt32,   DType::kInt64,    DType::kBool};

// False for a number that was cast to DType and names none.
constexpr bool IsValid(DType dtype) { return dtype <= DType::kBool; }

// INVALID_ARGUMENT, with the number.
absl::Status InvalidDType(DType dtype);

// Bytes per element; 0 if not valid.
constexpr size_t SizeOf(DType dtype) {
  constexpr std::array<size_t, kAllDTypes.size()> kSizes = {2, 2, 4, 8, 1,
                                                            1, 4, 8, 1};
  return IsValid(dtype) ? kSizes[static_cast<size_t>(dtype)] : 0;
}

// "float32", "bfloat16", ...: NumPy's names where NumPy has one.
absl::string_view Name(DType dtype);

// The inverse of Name(). Errors: INVALID_ARGUMENT listing the known names.
absl::StatusOr<DType> ParseDType(absl::string_view name);

bool IsFloating(DType dtype);
bool IsInteger(DType dtype);  // kBool is not an integer.

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_DTYPE_H_
