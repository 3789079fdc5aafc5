#ifndef TUTTI_RUNTIME_JSON_FILE_H_
#define TUTTI_RUNTIME_JSON_FILE_H_

#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace tutti {

// For files of settings in JSON: what is the same whatever they say.

// What is in the file. Errors name the path: INVALID_ARGUMENT for more than 16
// MiB; those of the system for one that cannot be read.
absl::StatusOr<std::string> ReadJsonFile(const std::string& path);

// Finds a key that an object has twice, of which the library keeps the last and
// says nothing.
class RepeatedKey {
 public:
  // What the parser tells its callback.
  void Note(int depth, nlohmann::json::parse_event_t event,
            const nlohmann::json& found);

  // The first one.
  const std::optional<std::string>& key() const { return key_; }

 private:
  std::map<int, std::set<std::string>> keys_;  // By depth, of the last object.
  std::optional<std::string> key_;
};

// What errors quote of a file, whatever it has: the beginning of a text that is
// long, control characters by their numbers, and of a list or an object, which
// may be nested without end, the type alone.
std::string ShownText(const std::string& text);
std::string ShownJson(const nlohmann::json& value);

// Errors: INVALID_ARGUMENT with JsonErrorText(), and for a key that an object
// has twice.
absl::StatusOr<nlohmann::json> ParseJson(const std::string& text);

// "not JSON: parse error at line 1, column 2: ...", shortened.
std::string JsonErrorText(const nlohmann::json::exception& error);

}  // namespace tutti

#endif  // TUTTI_RUNTIME_JSON_FILE_H_
