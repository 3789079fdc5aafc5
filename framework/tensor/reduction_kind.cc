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

bool IsSumOrProduct(ReductionKind kind) { return kind <= ReductionKind::kProd; }

// Returns the reason why `kind` cannot reduce the elements; empty if it can.
absl::string_view WhyNot(ReductionKind kind, DType dtype) {
  if (dtype == DType::kBool) {
    return IsSumOrProduct(kind)
               ? "bool is reduced by min, max, band, bor and bxor alone"
               : "";
  }
  if (IsComplex(dtype)) {
    return IsSumOrProduct(kind) ? ""
                                : "complex numbers have no order and no bits: "
                                  "sum and prod alone";
  }
  if (IsBitOperation(kind) && !IsInteger(dtype)) {
    return "bit operations need an integer dtype or bool";
  }
  return "";
}

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
  const absl::string_view why_not = WhyNot(kind, dtype);
  if (why_not.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("reduction \"", Name(kind),
                                                 "\" of ", Name(dtype),
                                                 " elements: ", why_not));
}

}  // namespace tutti
