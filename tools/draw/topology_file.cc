#include "tools/draw/topology_file.h"

#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "runtime/json_file.h"
#include "tools/base/exit_status.h"

namespace tutti {
namespace {

using Json = nlohmann::json;

// Reads one field; returns the error text, empty if none.
using Reader = std::function<std::string(const Json&)>;

Reader Text(std::string* into) {
  return [into](const Json& value) -> std::string {
    if (!value.is_string()) return "a text";
    auto text = value.get<std::string>();
    // Control characters would spoil the table or the terminal.
    if (absl::c_any_of(text, absl::ascii_iscntrl)) return "a text of one line";
    *into = std::move(text);
    return "";
  };
}

double NumberOr(const Json& value, double other) {
  return value.is_number() ? value.get<double>() : other;
}

// Stores the number in another unit.
Reader Size(double* into, double unit = 1) {
  return [into, unit](const Json& value) -> std::string {
    const double number = NumberOr(value, -1);
    if (number < 0) return "a number from 0 on";
    *into = number * unit;
    return "";
  };
}

// Reads microseconds, stores seconds.
Reader Time(double* into) { return Size(into, 1e-6); }

// Reads GB/s, stores bytes per second.
Reader Rate(double* into) {
  return [into](const Json& value) -> std::string {
    const double number = NumberOr(value, 0);
    if (number <= 0) return "a number above 0";
    const double bytes_per_second = number * 1e9;
    if (!std::isfinite(1 / bytes_per_second)) return "a larger number";
    if (!std::isfinite(bytes_per_second)) return "a smaller number";
    *into = bytes_per_second;
    return "";
  };
}

Reader Count(int* into) {
  return [into](const Json& value) -> std::string {
    constexpr int kMost = 1'000'000'000;
    const bool fits = value.is_number_unsigned() &&
                      value.get<uint64_t>() >= 1 &&
                      value.get<uint64_t>() <= kMost;
    if (!fits) return absl::StrCat("a whole number from 1 to ", kMost);
    *into = value.get<int>();
    return "";
  };
}

// Error messages put `prefix` before the field's name.
absl::Status ReadFields(const Json& json, const std::string& prefix,
                        const std::map<std::string, Reader>& readers) {
  for (const auto& [key, value] : json.items()) {
    const auto reader = readers.find(key);
    if (reader == readers.end()) {
      return UsageError(absl::StrCat(
          "unknown field \"", prefix, ShownText(key), "\"; known: ",
          absl::StrJoin(readers, ", ", [](std::string* out, const auto& one) {
            out->append(one.first);
          })));
    }
    const std::string wanted = reader->second(value);
    if (wanted.empty()) continue;
    return UsageError(absl::StrCat("\"", prefix, key, "\" is ",
                                   ShownJson(value), "; wanted is ", wanted));
  }
  return absl::OkStatus();
}

absl::StatusOr<LinkClass> LinkOf(const Json& json, size_t index, size_t num) {
  const std::string prefix = absl::StrCat("links[", index, "].");
  if (!json.is_object()) {
    return UsageError(absl::StrCat(
        "links[", index, "] is ", json.type_name(),
        R"(; wanted is {"name": ..., "latency_us": ..., "gb_per_s": ...})"));
  }
  for (const char* needed : {"name", "latency_us", "gb_per_s"}) {
    if (json.contains(needed)) continue;
    return UsageError(absl::StrCat("\"", prefix, needed, "\" is missing"));
  }
  const bool is_last = index + 1 == num;
  if (is_last && json.contains("tasks")) {
    return UsageError(
        absl::StrCat("\"", prefix, "tasks\" is ", ShownJson(json["tasks"]),
                     "; wanted is none: the last class joins all"));
  }
  if (index > 0 && !is_last && !json.contains("tasks")) {
    return UsageError(absl::StrCat(
        "\"", prefix, "tasks\" is missing: only the last class joins all"));
  }
  LinkClass link;
  if (index == 0 && num > 1) link.tasks = 1;
  const absl::Status read =
      ReadFields(json, prefix,
                 {{"name", Text(&link.name)},
                  {"latency_us", Time(&link.cost.latency_seconds)},
                  {"gb_per_s", Rate(&link.cost.bytes_per_second)},
                  {"tasks", Count(&link.tasks)}});
  if (!read.ok()) return read;
  return link;
}

absl::StatusOr<std::vector<LinkClass>> LinksOf(const Json& json) {
  if (!json.is_object() || !json.contains("links") ||
      !json["links"].is_array()) {
    return UsageError(
        R"(wanted is {"links": [...], ...}, see docs/simulate.md)");
  }
  std::vector<LinkClass> links;
  for (const Json& one : json["links"]) {
    ASSIGN_OR_RETURN(auto link,
                     LinkOf(one, links.size(), json["links"].size()));
    links.push_back(std::move(link));
  }
  return links;
}

absl::StatusOr<Host> HostOf(const Json& json) {
  Host host;
  if (!json.contains("host")) return host;
  const Json& fields = json["host"];
  if (!fields.is_object()) {
    return UsageError(absl::StrCat(
        "\"host\" is ", ShownJson(fields),
        R"(; wanted is {"processors": ..., "tasks": ..., "inline_bytes": ...})"));
  }
  if (!fields.contains("processors")) {
    return UsageError("\"host.processors\" is missing");
  }
  const absl::Status read =
      ReadFields(fields, "host.",
                 {{"tasks", Count(&host.tasks)},
                  {"processors", Count(&host.processors)},
                  {"inline_bytes", Size(&host.inline_bytes)}});
  if (!read.ok()) return read;
  return host;
}

absl::StatusOr<ClusterModel> ClusterOf(const Json& json) {
  ASSIGN_OR_RETURN(auto links, LinksOf(json));
  ASSIGN_OR_RETURN(const auto host, HostOf(json));
  ClusterModel cluster{.links = std::move(links), .host = host};
  const absl::Status read =
      ReadFields(json, "",
                 {{"links", [](const Json&) { return std::string(); }},
                  {"host", [](const Json&) { return std::string(); }},
                  {"message_us", Time(&cluster.seconds_per_message)},
                  {"reduced_gb_per_s", Rate(&cluster.reduced_bytes_per_second)},
                  {"copied_gb_per_s", Rate(&cluster.copied_bytes_per_second)}});
  if (!read.ok()) return read;
  RETURN_IF_ERROR(CheckCluster(cluster));
  return cluster;
}

}  // namespace

absl::StatusOr<ClusterModel> ParseTopology(const std::string& text,
                                           const std::string& path) {
  const auto blame = [&](const absl::Status& status) {
    return UsageError(absl::StrCat(path, ": ", status.message()));
  };
  const absl::StatusOr<Json> json = ParseJson(text);
  if (!json.ok()) return blame(json.status());
  absl::StatusOr<ClusterModel> cluster = ClusterOf(*json);
  if (!cluster.ok()) return blame(cluster.status());
  return cluster;
}

absl::StatusOr<ClusterModel> ReadTopology(const std::string& path) {
  const auto text = ReadJsonFile(path);
  if (absl::IsInvalidArgument(text.status())) {
    return UsageError(text.status().message());
  }
  if (!text.ok()) return text.status();
  return ParseTopology(*text, path);
}

}  // namespace tutti
