#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

constexpr absl::string_view kNames[] = {
#define TUTTI_DTYPE(category, code, name, Element) name,
    TUTTI_DTYPES(TUTTI_DTYPE)
#undef TUTTI_DTYPE
};

}  // namespace

absl::string_view Name(DType dtype) {
  return IsValid(dtype) ? kNames[static_cast<size_t>(dtype)]
                        : absl::string_view("invalid dtype");
}

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  for (DType dtype : kAllDTypes) {
    if (Name(dtype) == name) return dtype;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown dtype \"", name, "\"; known: ",
      absl::StrJoin(kAllDTypes, ", ", [](std::string* out, DType dtype) {
        absl::StrAppend(out, Name(dtype));
      })));
}

absl::Status InvalidDType(DType dtype) {
  return absl::InvalidArgumentError(
      absl::StrCat("there is no dtype ", static_cast<int>(dtype)));
}

bool IsFloating(DType dtype) {
  return VisitDType(
      dtype, []<typename Element>(Element) { return kIsFloating<Element>; });
}

bool IsInteger(DType dtype) {
  return VisitDType(
      dtype, []<typename Element>(Element) { return kIsInteger<Element>; });
}

}  // namespace tutti
