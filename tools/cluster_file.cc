#include "tools/cluster_file.h"

#include <array>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"
#include "runtime/json_file.h"
#include "tools/exit_status.h"

namespace tutti {
namespace {

using Json = nlohmann::json;

// Which task a process is, is not for a file that all of them read.
constexpr char kTasks[] = "tasks";
constexpr std::array kKeys = {
    "job",  kTasks,     "devices_per_task", "start_timeout", "detect", "bind",
    "port", "insecure", "tls_cert",         "tls_key",       "tls_ca",
};

absl::StatusOr<std::string> TasksOf(const Json& value) {
  const auto is_address = [](const Json& one) {
    if (!one.is_string()) return false;
    const auto& text = one.get_ref<const std::string&>();
    return !text.empty() && !absl::StrContains(text, ',');
  };
  if (!value.is_array() || value.empty() ||
      !absl::c_all_of(value, is_address)) {
    return UsageError(
        R"("tasks" is not a list of addresses, ["host1:7000", ...])");
  }
  return absl::StrJoin(value.get<std::vector<std::string>>(), ",");
}

absl::StatusOr<std::string> TextOf(const std::string& key, const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  return UsageError(absl::StrCat("\"", key, "\" is ", value.type_name(),
                                 "; wanted is a text or a number"));
}

absl::StatusOr<ClusterWords> WordsOf(const Json& json) {
  if (!json.is_object()) {
    return UsageError(R"(wanted is {"tasks": ["host1:7000", ...], ...})");
  }
  ClusterWords words;
  for (const auto& [key, value] : json.items()) {
    if (!absl::c_linear_search(kKeys, key)) {
      return UsageError(absl::StrCat(
          "unknown key \"", key, "\"; known: ", absl::StrJoin(kKeys, ", ")));
    }
    const bool is_tasks = key == kTasks;
    auto text = is_tasks ? TasksOf(value) : TextOf(key, value);
    if (!text.ok()) return text.status();
    const std::string option =
        is_tasks ? "cluster" : absl::StrReplaceAll(key, {{"_", "-"}});
    words[option] = *std::move(text);
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
