#ifndef TUTTI_TOOLS_BASE_SIZES_H_
#define TUTTI_TOOLS_BASE_SIZES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tutti {

// Bytes, as in "4", "64K", "64M", "1G"; K, M and G are 1024, 1024^2 and 1024^3.
// Errors: INVALID_ARGUMENT saying what was given and the form wanted.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);

// The inverse: in the largest unit that divides it.
std::string FormatBytes(int64_t bytes);

// first, first * factor, first * factor^2, ... up to and including `last`.
// REQUIRES: first >= 1 and factor >= 2.
std::vector<int64_t> GeometricSizes(int64_t first, int64_t last, int factor);

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_SIZES_H_
