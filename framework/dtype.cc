#include "framework/dtype.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tutti {
namespace {

struct Traits {
  absl::string_view name;
  size_t size_bytes;
};

// In the order of the enumeration.
constexpr Traits kTraits[] = {{"float16", 2}, {"bfloat16", 2}, {"float32", 4},
                              {"float64", 8}, {"int8", 1},     {"uint8", 1},
                              {"int32", 4},   {"int64", 8},    {"bool", 1}};

constexpr Traits kInvalid = {"invalid dtype", 0};

const Traits& TraitsOf(DType dtype) {
  return IsValid(dtype) ? kTraits[static_cast<size_t>(dtype)] : kInvalid;
}

}  // namespace

size_t SizeOf(DType dtype) { return TraitsOf(dtype).size_bytes; }

absl::string_view Name(DType dtype) { return TraitsOf(dtype).name; }

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

bool IsFloating(DType dtype) { return dtype <= DType::kFloat64; }

bool IsInteger(DType dtype) {
  return dtype >= DType::kInt8 && dtype <= DType::kInt64;
}

}  // namespace tutti
