#include <array>
#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/status_macros.h"
#include "framework/collective/layout_text.h"
#include "nlohmann/json.hpp"
#include "runtime/json_file.h"
#include "tutti/collective.h"
#include "tutti/selection.h"

namespace tutti {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;
constexpr size_t kMostRules = 100'000;

// Longest name, e.g. of an algorithm.
constexpr size_t kMaxNameBytes = 200;

// Parser depth at which a rule begins: inside a list inside the file's object.
constexpr int kDepthOfRules = 2;

// Iterates over characters and counts the lines begun so far. The parser reads
// one character past a number. A line ends only after its last character: the
// number still counts on its line.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, int* lines) : at_(at), lines_(lines) {}

  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    if (ended_line_) ++*lines_;
    ended_line_ = *at_++ == '\n';
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator!=(const CountingIterator& a, const CountingIterator& b) {
    return a.at_ != b.at_;
  }

 private:
  const char* at_;
  int* lines_;
  bool ended_line_ = false;
};

// Facts that the parser reports besides the values.
struct Seen {
  std::vector<int> lines_of_rules;  // First line of each rule.
  RepeatedKey repeated;
  int line_of_repeated = 0;
};

constexpr char kPastCaches[] = "past_caches_from_bytes";

// Key by which editors find docs/rules.schema.json.
constexpr char kSchema[] = "$schema";

constexpr std::array kFileKeys = {"version", "comment", kSchema, "rules",
                                  kPastCaches};

absl::Status Error(const std::string& where, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", message));
}

absl::StatusOr<Json> ParseAndSee(const std::string& text,
                                 const std::string& path, Seen* seen) {
  int line = 1;
  const auto note = [&](int depth, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    const bool begins = event == Event::object_start ||
                        event == Event::array_start || event == Event::value;
    if (begins && depth == kDepthOfRules) seen->lines_of_rules.push_back(line);
    if (!seen->repeated.key().has_value()) seen->line_of_repeated = line;
    seen->repeated.Note(depth, event, parsed);
    return true;
  };
  try {
    Json json =
        Json::parse(CountingIterator(text.data(), &line),
                    CountingIterator(text.data() + text.size(), &line), note);
    return json;
  } catch (const Json::exception& error) {
    return Error(absl::StrCat(path, ":", line), JsonErrorText(error));
  }
}

// REQUIRES: `json` is an object.
absl::Status CheckKeys(const Json& json, absl::Span<const char* const> known,
                       const std::string& where) {
  for (const auto& [key, value] : json.items()) {
    if (absl::c_linear_search(known, key)) continue;
    return Error(where,
                 absl::StrCat("unknown key \"", ShownText(key),
                              "\"; known: ", absl::StrJoin(known, ", ")));
  }
  return absl::OkStatus();
}

// Returns json[key], which must be a number of bytes.
absl::StatusOr<int64_t> BytesIn(const Json& json, const char* key,
                                const std::string& where) {
  const Json& value = json[key];
  const bool fits = value.is_number_integer() &&
                    (value.is_number_unsigned()
                         ? value.get<uint64_t>() <=
                               uint64_t{std::numeric_limits<int64_t>::max()}
                         : value.get<int64_t>() >= 0);
  if (fits) return value.get<int64_t>();
  return Error(where, absl::StrCat("\"", key, "\" is ", ShownJson(value),
                                   "; wanted a number of bytes"));
}

// Reads a single rule of the file.
class RuleReader {
 public:
  RuleReader(const Json& json, std::string where)
      : json_(json), where_(std::move(where)) {}

  absl::StatusOr<SelectionRule> Read() {
    SelectionRule rule;
    rule.where = where_;
    RETURN_IF_ERROR(CheckIsRule());
    RETURN_IF_ERROR(ReadCollective(&rule));
    RETURN_IF_ERROR(ReadLayout(&rule));
    RETURN_IF_ERROR(ReadProcesses(&rule));
    RETURN_IF_ERROR(ReadSize("min_bytes", &rule.min_bytes));
    RETURN_IF_ERROR(ReadSize("max_bytes", &rule.max_bytes));
    RETURN_IF_ERROR(ReadName("algorithm", &rule.implementation));
    if (!rule.implementation.empty()) return rule;
    return Error(where_, "wanted an \"algorithm\"");
  }

 private:
  static constexpr std::array kKeys = {"collective", "layout",    "one_process",
                                       "min_bytes",  "max_bytes", "algorithm"};

  absl::Status CheckIsRule() {
    if (json_.is_object()) return CheckKeys(json_, kKeys, where_);
    return Error(where_,
                 absl::StrCat("a rule is an object, not ", json_.type_name()));
  }

  absl::Status ReadText(const char* key, std::string* text) {
    if (!json_.contains(key)) return absl::OkStatus();
    if (!json_[key].is_string() || json_[key] == "") {
      return Error(where_,
                   absl::StrCat("\"", key, "\" is ", ShownJson(json_[key]),
                                "; wanted a text"));
    }
    *text = json_[key].get<std::string>();
    return absl::OkStatus();
  }

  // Reads a name. A text longer than kMaxNameBytes names nothing.
  absl::Status ReadName(const char* key, std::string* name) {
    absl::Status status = ReadText(key, name);
    if (!status.ok() || name->size() <= kMaxNameBytes) return status;
    return Error(where_,
                 absl::StrCat("\"", key, "\" is ", ShownJson(json_[key]),
                              "; wanted at most ", kMaxNameBytes, " bytes"));
  }

  // Normalises the layout to the text that groups use: the two texts are
  // compared.
  absl::Status ReadLayout(SelectionRule* rule) {
    std::string text;
    absl::Status status = ReadText("layout", &text);
    if (!status.ok() || text.empty()) return status;
    const auto devices = ParseLayoutText(text, kMaxGroupSize);
    if (!devices.ok()) {
      return Error(where_,
                   absl::StrCat("\"layout\": ", devices.status().message()));
    }
    rule->layout = LayoutText(*devices);
    return absl::OkStatus();
  }

  absl::Status ReadCollective(SelectionRule* rule) {
    std::string name;
    RETURN_IF_ERROR(ReadName("collective", &name));
    if (name.empty()) return Error(where_, "wanted a \"collective\"");
    const auto type = ParseCollectiveType(name);
    if (!type.ok()) {
      return Error(where_,
                   absl::StrCat("\"collective\": ", type.status().message()));
    }
    rule->type = *type;
    return absl::OkStatus();
  }

  absl::Status ReadProcesses(SelectionRule* rule) {
    if (!json_.contains("one_process")) return absl::OkStatus();
    const Json& value = json_["one_process"];
    if (!value.is_boolean()) {
      return Error(where_, absl::StrCat("\"one_process\" is ", ShownJson(value),
                                        "; wanted true or false"));
    }
    rule->one_process = value.get<bool>();
    return absl::OkStatus();
  }

  absl::Status ReadSize(const char* key, int64_t* bytes) {
    if (!json_.contains(key)) return absl::OkStatus();
    ASSIGN_OR_RETURN(*bytes, BytesIn(json_, key, where_));
    return absl::OkStatus();
  }

  const Json& json_;
  const std::string where_;
};

absl::Status CheckFile(const Json& json, const Seen& seen,
                       const std::string& path) {
  if (seen.repeated.key().has_value()) {
    return Error(absl::StrCat(path, ":", seen.line_of_repeated),
                 absl::StrCat("\"", ShownText(*seen.repeated.key()),
                              "\" for the second time"));
  }
  const std::string where = absl::StrCat(path, ":1");
  if (!json.is_object() || !json.contains("rules") ||
      !json["rules"].is_array()) {
    return Error(where, R"(wanted {"version": 1, "rules": [...]})");
  }
  for (const char* const key : {"comment", kSchema}) {
    if (json.contains(key) && !json[key].is_string()) {
      return Error(where, absl::StrCat("\"", key, "\" is no text"));
    }
  }
  RETURN_IF_ERROR(CheckKeys(json, kFileKeys, where));
  if (!json.contains("version") || json["version"] != kVersion) {
    return Error(where, absl::StrCat("wanted \"version\": ", kVersion));
  }
  if (json["rules"].size() <= kMostRules) return absl::OkStatus();
  return Error(where, absl::StrCat(json["rules"].size(),
                                   " rules; wanted at most ", kMostRules));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const SelectionRules>> ParseRulesFile(
    const std::string& text, const std::string& path,
    const CollectiveRegistry& registry) {
  Seen seen;
  ASSIGN_OR_RETURN(const auto json, ParseAndSee(text, path, &seen));
  RETURN_IF_ERROR(CheckFile(json, seen, path));
  auto rules = std::make_shared<SelectionRules>();
  if (json.contains(kPastCaches)) {
    ASSIGN_OR_RETURN(rules->past_caches_from_bytes,
                     BytesIn(json, kPastCaches, absl::StrCat(path, ":1")));
  }
  const Json& list = json["rules"];
  for (size_t i = 0; i < list.size(); ++i) {
    const int line =
        i < seen.lines_of_rules.size() ? seen.lines_of_rules[i] : 1;
    ASSIGN_OR_RETURN(auto rule,
                     RuleReader(list[i], absl::StrCat(path, ":", line)).Read());
    rules->rules.push_back(std::move(rule));
  }
  RETURN_IF_ERROR(CheckRules(registry, *rules));
  return rules;
}

absl::StatusOr<std::shared_ptr<const SelectionRules>> ReadRulesFile(
    const std::string& path, const CollectiveRegistry& registry) {
  ASSIGN_OR_RETURN(const auto text, ReadJsonFile(path));
  return ParseRulesFile(text, path, registry);
}

std::string RulesFileText(const SelectionRules& rules) {
  std::string text =
      absl::StrCat("{\"version\": ", kVersion, ",\n \"rules\": [");
  for (const SelectionRule& rule : rules.rules) {
    nlohmann::ordered_json json = {
        {"collective", std::string(Name(rule.type))}};
    if (!rule.layout.empty()) json["layout"] = rule.layout;
    if (rule.one_process.has_value()) json["one_process"] = *rule.one_process;
    if (rule.min_bytes > 0) json["min_bytes"] = rule.min_bytes;
    if (rule.max_bytes < std::numeric_limits<int64_t>::max()) {
      json["max_bytes"] = rule.max_bytes;
    }
    json["algorithm"] = rule.implementation;
    absl::StrAppend(&text, &rule == rules.rules.data() ? "\n  " : ",\n  ",
                    json.dump());
  }
  absl::StrAppend(&text, "\n]");
  if (rules.past_caches_from_bytes.has_value()) {
    absl::StrAppend(&text, ",\n \"", kPastCaches,
                    "\": ", *rules.past_caches_from_bytes);
  }
  return absl::StrCat(text, "}\n");
}

}  // namespace tutti
