#ifndef TUTTI_RUNTIME_JSON_FILE_H_
#define TUTTI_RUNTIME_JSON_FILE_H_

#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace tutti {

// Helpers shared by all readers of JSON settings files.

// Reads the whole file. Errors name the path: INVALID_ARGUMENT if the file has
// more than 16 MiB; the system's error if it cannot be read.
absl::StatusOr<std::string> ReadJsonFile(const std::string& path);

// Finds a key that appears twice in one object. The JSON library silently keeps
// the last value of such a key.
class RepeatedKey {
 public:
  // Takes the arguments of the parser's callback.
  void Note(int depth, nlohmann::json::parse_event_t event,
            const nlohmann::json& found);

  // The first repeated key, if any.
  const std::optional<std::string>& key() const { return key_; }

 private:
  std::map<int, std::set<std::string>> keys_;  // Last object's, by depth.
  std::optional<std::string> key_;
};

// Excerpts of a file for error messages, short whatever the file contains. A
// long text is cut after its beginning. Control characters are shown by their
// numbers. A list or an object may be nested without end: only its type is
// shown.
std::string ShownText(const std::string& text);
std::string ShownJson(const nlohmann::json& value);

// Parses `text`. Errors: INVALID_ARGUMENT with JsonErrorText(), or if an object
// has a key twice.
absl::StatusOr<nlohmann::json> ParseJson(const std::string& text);

// Returns "not JSON: parse error at line 1, column 2: ...", shortened.
std::string JsonErrorText(const nlohmann::json::exception& error);

}  // namespace tutti

#endif  // TUTTI_RUNTIME_JSON_FILE_H_
