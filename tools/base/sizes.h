#ifndef TUTTI_TOOLS_BASE_SIZES_H_
#define TUTTI_TOOLS_BASE_SIZES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tutti {

// Parses a number of bytes such as "4", "64K", "64M" or "1G"; K, M and G are
// 1024, 1024^2 and 1024^3. Errors: INVALID_ARGUMENT with the given text and the
// wanted form.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);

// Inverse of ParseBytes(), in the largest unit that divides `bytes`.
std::string FormatBytes(int64_t bytes);

// Returns first, first * factor, first * factor^2, ... up to and including
// `last`. REQUIRES: first >= 1 and factor >= 2.
std::vector<int64_t> GeometricSizes(int64_t first, int64_t last, int factor);

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_SIZES_H_
