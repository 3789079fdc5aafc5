#include "runtime/json_file.h"

#include <cerrno>
#include <cstddef>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tutti {
namespace {

constexpr size_t kMaxBytes = size_t{16} << 20;

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

absl::StatusOr<nlohmann::json> ParseJson(const std::string& text) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(JsonErrorText(error));
  }
}

std::string JsonErrorText(const nlohmann::json::exception& error) {
  // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
  absl::string_view message = error.what();
  const size_t end_of_id = message.find("] ");
  if (end_of_id != absl::string_view::npos) {
    message.remove_prefix(end_of_id + 2);
  }
  return absl::StrCat("not JSON: ", message);
}

}  // namespace tutti
