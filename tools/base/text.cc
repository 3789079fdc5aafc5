#include "tools/base/text.h"

#include <algorithm>
#include <array>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

// FNV-1a.
uint64_t Fingerprint(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

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

std::string Padded(const std::string& text, const Column& column) {
  const std::string space(column.width - std::min(column.width, text.size()),
                          ' ');
  return column.align == Align::kLeft ? text + space : space + text;
}

}  // namespace

std::string BoundedText(const std::string& text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  const std::string end =
      absl::StrCat("... (", text.size(), " bytes, fingerprint ",
                   absl::Hex(Fingerprint(text)), ")");
  return absl::StrCat(text.substr(0, max_bytes - end.size()), end);
}

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

TextTable::TextTable(std::vector<Column> columns)
    : columns_(std::move(columns)) {
  for (Column& column : columns_) {
    column.width = std::max(column.width, column.title.size());
  }
}

std::string TextTable::Header() const {
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  return Row(titles);
}

std::string TextTable::Row(absl::Span<const std::string> cells) const {
  std::string line;
  for (size_t i = 0; i < std::min(cells.size(), columns_.size()); ++i) {
    absl::StrAppend(&line, i == 0 ? "" : "  ", Padded(cells[i], columns_[i]));
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string FormatTable(std::vector<Column> columns,
                        absl::Span<const std::vector<std::string>> rows) {
  for (const std::vector<std::string>& row : rows) {
    for (size_t i = 0; i < std::min(row.size(), columns.size()); ++i) {
      columns[i].width = std::max(columns[i].width, row[i].size());
    }
  }
  const TextTable table(std::move(columns));
  std::string text = table.Header();
  for (const auto& row : rows) absl::StrAppend(&text, table.Row(row));
  return text;
}

}  // namespace tutti
