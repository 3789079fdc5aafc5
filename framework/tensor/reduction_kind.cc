#include <cstddef>

#include "absl/strings/str_cat.h"
#include "framework/base/names.h"
#include "tutti/reduction.h"

namespace tutti {
namespace {

// Names in the order of the enumeration.
constexpr absl::string_view kKindNames[] = {"sum",  "prod", "min", "max",
                                            "band", "bor",  "bxor"};

bool IsBitOperation(ReductionKind kind) { return kind >= ReductionKind::kBand; }

}  // namespace

absl::string_view Name(ReductionKind kind) {
  return IsValid(kind) ? kKindNames[static_cast<size_t>(kind)]
                       : absl::string_view("invalid reduction");
}

absl::StatusOr<ReductionKind> ParseReductionKind(absl::string_view name) {
  return ParseName("reduction", name, kAllReductionKinds);
}

absl::Status CheckSupported(ReductionKind kind, DType dtype) {
  if (!IsValid(kind)) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no reduction ", static_cast<int>(kind)));
  }
  if (!IsValid(dtype)) return InvalidDType(dtype);
  if (dtype == DType::kBool) {
    return absl::InvalidArgumentError(
        absl::StrCat("reduction \"", Name(kind), "\" of ", Name(dtype),
                     " elements: bool is only moved, never reduced"));
  }
  if (IsBitOperation(kind) && !IsInteger(dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("reduction \"", Name(kind), "\" of ", Name(dtype),
                     " elements: bit operations need an integer dtype"));
  }
  return absl::OkStatus();
}

}  // namespace tutti
