#include "tools/cluster/cluster_file.h"

#include <array>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "framework/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "runtime/json_file.h"
#include "tools/base/exit_status.h"

namespace tutti {
namespace {

using Json = nlohmann::json;

// A file cannot set `task`, which differs between the processes that read it.
constexpr char kTasks[] = "tasks";
constexpr std::array kTexts = {"job",      "detect",  "bind",  "transport",
                               "tls_cert", "tls_key", "tls_ca"};
constexpr std::array kNumberKeys = {"devices_per_task", "start_timeout",
                                    "port"};
constexpr char kInsecure[] = "insecure";

absl::Status WantedElse(const std::string& what, const Json& found,
                        absl::string_view wanted) {
  return UsageError(
      absl::StrCat(what, " is ", ShownJson(found), "; wanted is ", wanted));
}

absl::StatusOr<std::string> TasksOf(const Json& value) {
  if (!value.is_array() || value.empty()) {
    return WantedElse(R"("tasks")", value,
                      R"(a list of one address or more, ["host1:7000", ...])");
  }
  std::vector<std::string> addresses;
  for (const Json& one : value) {
    const auto* text = one.get_ptr<const std::string*>();
    if (text == nullptr || text->empty() || absl::StrContains(*text, ',')) {
      return WantedElse(
          absl::StrCat("entry ", addresses.size(), " of \"tasks\""), one,
          R"(an address, "host1:7000")");
    }
    addresses.push_back(*text);
  }
  return absl::StrJoin(addresses, ",");
}

absl::StatusOr<std::string> WordOf(const std::string& key, const Json& value) {
  const std::string what = absl::StrCat("\"", ShownText(key), "\"");
  if (key == kTasks) return TasksOf(value);
  if (key == kInsecure) {
    if (value.is_boolean()) return value.dump();
    return WantedElse(what, value, "true or false");
  }
  if (absl::c_linear_search(kNumberKeys, key)) {
    if (value.is_number()) return value.dump();
    return WantedElse(what, value, "a number");
  }
  if (absl::c_linear_search(kTexts, key)) {
    if (value.is_string()) return value.get<std::string>();
    return WantedElse(what, value, "a text");
  }
  return UsageError(absl::StrCat("unknown key ", what, "; known: ", kTasks,
                                 ", ", absl::StrJoin(kTexts, ", "), ", ",
                                 absl::StrJoin(kNumberKeys, ", "), ", ",
                                 kInsecure));
}

absl::StatusOr<ClusterWords> WordsOf(const Json& json) {
  if (!json.is_object()) {
    return UsageError(R"(wanted is {"tasks": ["host1:7000", ...], ...})");
  }
  ClusterWords words;
  for (const auto& [key, value] : json.items()) {
    ASSIGN_OR_RETURN(auto word, WordOf(key, value));
    const std::string option =
        key == kTasks ? "cluster" : absl::StrReplaceAll(key, {{"_", "-"}});
    words[option] = std::move(word);
  }
  return words;
}

}  // namespace

absl::StatusOr<ClusterWords> ParseClusterFile(const std::string& text,
                                              const std::string& path) {
  const auto blame = [&](const absl::Status& status) {
    return UsageError(absl::StrCat(path, ": ", status.message()));
  };
  const absl::StatusOr<Json> json = ParseJson(text);
  if (!json.ok()) return blame(json.status());
  absl::StatusOr<ClusterWords> words = WordsOf(*json);
  if (!words.ok()) return blame(words.status());
  return words;
}

absl::StatusOr<ClusterWords> ReadClusterFile(const std::string& path) {
  const auto text = ReadJsonFile(path);
  if (absl::IsInvalidArgument(text.status())) {
    return UsageError(text.status().message());
  }
  if (!text.ok()) return text.status();
  return ParseClusterFile(*text, path);
}

}  // namespace tutti
