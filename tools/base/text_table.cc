#include "tools/base/text_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

std::string Padded(const std::string& text, const Column& column) {
  const std::string space(column.width - std::min(column.width, text.size()),
                          ' ');
  return column.align == Align::kLeft ? text + space : space + text;
}

}  // namespace

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
