#include "runtime/json_file.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <ios>
#include <sstream>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tutti {
namespace {

constexpr size_t kMaxBytes = size_t{16} << 20;
constexpr size_t kMaxShownBytes = 200;

std::string Beginning(const std::string& text) {
  if (text.size() <= kMaxShownBytes) return text;
  size_t end = kMaxShownBytes;
  const auto continues_character = [&text](size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
  };
  while (end > 0 && continues_character(end)) --end;
  return absl::StrCat(text.substr(0, end), "... (", text.size(), " bytes)");
}

// Returns "line 1, column 2": the place of the first number that overflows a
// double. The library's error for such a number does not give the place.
std::string PlaceOfOverflow(const std::string& text) {
  std::istringstream in(text);
  static_cast<void>(nlohmann::json::accept(in));
  // The parser has read the number, plus one character unless the text ends
  // there.
  const auto read = static_cast<size_t>(
      in.rdbuf()->pubseekoff(0, std::ios::cur, std::ios::in));
  const absl::string_view before(text.data(), read);
  constexpr absl::string_view kOfNumbers = "+-.0123456789Ee";
  const size_t last = before.find_last_of(kOfNumbers);
  const size_t first = before.find_last_not_of(kOfNumbers, last) + 1;
  const size_t line = before.substr(0, first).rfind('\n') + 1;
  return absl::StrCat(
      "line ", 1 + std::count(before.begin(), before.begin() + line, '\n'),
      ", column ", first - line + 1);
}

}  // namespace

absl::StatusOr<std::string> ReadJsonFile(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string text(kMaxBytes + 1, '\0');
  if (in.is_open()) {
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
  }
  if (!in.is_open() || in.bad()) {
    return absl::ErrnoToStatus(errno == 0 ? EIO : errno,
                               absl::StrCat(path, ": cannot be read"));
  }
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() <= kMaxBytes) return text;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": more than ", kMaxBytes, " bytes"));
}

void RepeatedKey::Note(int depth, nlohmann::json::parse_event_t event,
                       const nlohmann::json& found) {
  using Event = nlohmann::json::parse_event_t;
  if (event == Event::object_start) keys_[depth + 1].clear();
  if (event != Event::key) return;
  const auto& key = found.get_ref<const std::string&>();
  if (!keys_[depth].insert(key).second && !key_.has_value()) key_ = key;
}

std::string ShownText(const std::string& text) {
  return absl::Utf8SafeCHexEscape(Beginning(text));
}

std::string ShownJson(const nlohmann::json& value) {
  return value.is_structured() ? value.type_name() : Beginning(value.dump());
}

absl::StatusOr<nlohmann::json> ParseJson(const std::string& text) {
  RepeatedKey repeated;
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(
        text, [&repeated](int depth, nlohmann::json::parse_event_t event,
                          const nlohmann::json& found) {
          repeated.Note(depth, event, found);
          return true;
        });
  } catch (const nlohmann::json::out_of_range& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(JsonErrorText(error), ", at ", PlaceOfOverflow(text)));
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(JsonErrorText(error));
  }
  if (repeated.key().has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", ShownText(*repeated.key()), "\" is there twice"));
  }
  return json;
}

std::string JsonErrorText(const nlohmann::json::exception& error) {
  // Strips the library's prefix: "[json.exception.parse_error.101] parse error
  // at line 1, column 2: ..."
  absl::string_view message = error.what();
  const size_t end_of_id = message.find("] ");
  if (end_of_id != absl::string_view::npos) {
    message.remove_prefix(end_of_id + 2);
  }
  return absl::StrCat("not JSON: ", Beginning(std::string(message)));
}

}  // namespace tutti
