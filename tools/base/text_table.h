#ifndef TUTTI_TOOLS_BASE_TEXT_TABLE_H_
#define TUTTI_TOOLS_BASE_TEXT_TABLE_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace tutti {

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

#endif  // TUTTI_TOOLS_BASE_TEXT_TABLE_H_
