#include "tools/base/sizes.h"

#include <array>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

struct Unit {
  char letter;
  int64_t bytes;
};

constexpr std::array<Unit, 3> kUnits = {{{'G', int64_t{1} << 30},
                                         {'M', int64_t{1} << 20},
                                         {'K', int64_t{1} << 10}}};

// Factor that the last letter stands for; 1 if it is no unit.
int64_t UnitOf(absl::string_view text) {
  for (const Unit& unit : kUnits) {
    if (!text.empty() && absl::ascii_toupper(text.back()) == unit.letter) {
      return unit.bytes;
    }
  }
  return 1;
}

}  // namespace

absl::StatusOr<int64_t> ParseBytes(absl::string_view text) {
  const int64_t unit = UnitOf(text);
  const absl::string_view digits =
      unit == 1 ? text : text.substr(0, text.size() - 1);
  int64_t bytes = 0;
  if (absl::c_all_of(digits, absl::ascii_isdigit) &&
      absl::SimpleAtoi(digits, &bytes) &&
      !__builtin_mul_overflow(bytes, unit, &bytes)) {
    return bytes;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text, "\" is no size in bytes; wanted one like 4, 64K, 64M or 1G"));
}

std::string FormatBytes(int64_t bytes) {
  for (const Unit& unit : kUnits) {
    if (bytes != 0 && bytes % unit.bytes == 0) {
      return absl::StrCat(bytes / unit.bytes, std::string(1, unit.letter));
    }
  }
  return absl::StrCat(bytes);
}

std::vector<int64_t> GeometricSizes(int64_t first, int64_t last, int factor) {
  std::vector<int64_t> sizes;
  for (int64_t size = first; size <= last; size *= factor) {
    sizes.push_back(size);
    if (size > last / factor) break;  // The next size might overflow.
  }
  return sizes;
}

}  // namespace tutti
