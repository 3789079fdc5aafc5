#ifndef TUTTI_FRAMEWORK_REDUCTION_KIND_H_
#define TUTTI_FRAMEWORK_REDUCTION_KIND_H_

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/dtype.h"

namespace tutti {

// How two elements become one. All are associative and commutative up to
// rounding. An average is a kSum whose result is divided by the group's size.
enum class ReductionKind : uint8_t {
  kSum,
  kProd,
  kMin,
  kMax,
  kBand,
  kBor,
  kBxor,
};

inline constexpr std::array<ReductionKind, 7> kAllReductionKinds = {
    ReductionKind::kSum, ReductionKind::kProd, ReductionKind::kMin,
    ReductionKind::kMax, ReductionKind::kBand, ReductionKind::kBor,
    ReductionKind::kBxor};

// False for a number that was cast to ReductionKind and names none.
constexpr bool IsValid(ReductionKind kind) {
  return kind <= ReductionKind::kBxor;
}

// "sum", "prod", "min", "max", "band", "bor", "bxor".
absl::string_view Name(ReductionKind kind);

// The inverse of Name(). Errors: INVALID_ARGUMENT listing the known names.
absl::StatusOr<ReductionKind> ParseReductionKind(absl::string_view name);

// Whether elements of `dtype` can be reduced by `kind`: both must be valid, bit
// operations need integers, and bool is moved but never reduced. Errors:
// INVALID_ARGUMENT naming both.
absl::Status CheckSupported(ReductionKind kind, DType dtype);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_REDUCTION_KIND_H_
