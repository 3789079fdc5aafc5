#include "runtime/json_file.h"

#include <cerrno>
#include <cstddef>
#include <fstream>
#include <functional>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tutti {
namespace {

constexpr size_t kMaxBytes = size_t{16} << 20;

// Sees what the parser finds, for a key that an object has twice: the library
// keeps the last one and says nothing.
class RepeatedKey {
 public:
  bool operator()(int depth, nlohmann::json::parse_event_t event,
                  const nlohmann::json& found) {
    const auto level = static_cast<size_t>(depth);
    if (event == nlohmann::json::parse_event_t::object_start) {
      keys_.resize(level + 1);
      keys_[level].clear();
    } else if (event == nlohmann::json::parse_event_t::key) {
      const auto& key = found.get_ref<const std::string&>();
      if (!keys_[level - 1].insert(key).second && !key_.has_value()) key_ = key;
    }
    return true;
  }

  // The first one.
  const std::optional<std::string>& key() const { return key_; }

 private:
  std::vector<absl::flat_hash_set<std::string>> keys_;  // Of open objects.
  std::optional<std::string> key_;
};

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
  RepeatedKey repeated;
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(text, std::ref(repeated));
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(JsonErrorText(error));
  }
  if (repeated.key().has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", *repeated.key(), "\" is there twice"));
  }
  return json;
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
