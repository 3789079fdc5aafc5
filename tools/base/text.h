#ifndef TUTTI_TOOLS_BASE_TEXT_H_
#define TUTTI_TOOLS_BASE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tutti {

// Returns the text if it has at most `max_bytes`. A longer text becomes its
// beginning, its size and its fingerprint, so that texts with the same
// beginning stay different. All processes compute the same fingerprint.
// `max_bytes` is at least 100.
std::string BoundedText(const std::string& text, size_t max_bytes);

// Parses a number of bytes such as "4", "64K", "64M" or "1G"; K, M and G are
// 1024, 1024^2 and 1024^3. Errors: INVALID_ARGUMENT with the given text and the
// wanted form.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);

// Inverse of ParseBytes(), in the largest unit that divides `bytes`.
std::string FormatBytes(int64_t bytes);

// Returns first, first * factor, first * factor^2, ... up to and including
// `last`. REQUIRES: first >= 1 and factor >= 2.
std::vector<int64_t> GeometricSizes(int64_t first, int64_t last, int factor);

enum class Align { kLeft, kRight };

struct Column {
  std::string title;  // Includes the unit: "p50 [us]".
  Align align = Align::kRight;
  size_t width = 0;  // At least the title's width; wider cells shift the rest.
};

// Text in columns, two spaces apart. Lines end with a newline and without
// spaces. If the columns are wide enough, a caller may print each line at once.
class TextTable {
 public:
  explicit TextTable(std::vector<Column> columns);

  std::string Header() const;

  // Missing cells become empty.
  std::string Row(absl::Span<const std::string> cells) const;

 private:
  std::vector<Column> columns_;
};

// Header and all rows, in columns that are wide enough for them.
std::string FormatTable(std::vector<Column> columns,
                        absl::Span<const std::vector<std::string>> rows);

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_TEXT_H_
