#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/json_file.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/selection.h"

namespace tutti {
namespace rules_file_test {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

std::string PathOf(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(JsonFileTest, TheTextComesAsItIs) {
  const std::string text("{\"a\":\r\n \0 1}", 12);
  const auto read = ReadJsonFile(PathOf("some.json", text));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(*read, text);
  EXPECT_EQ(*ReadJsonFile(PathOf("empty.json", "")), "");
}

TEST(JsonFileTest, WhatCannotBeReadIsNamed) {
  EXPECT_THAT(ReadJsonFile("/nowhere/at.json").status(),
              StatusIs(absl::StatusCode::kNotFound,
                       StartsWith("/nowhere/at.json: cannot be read")));
  const auto folder = ReadJsonFile(testing::TempDir());
  EXPECT_FALSE(folder.ok());
  EXPECT_THAT(std::string(folder.status().message()),
              HasSubstr("cannot be read"));
}

TEST(JsonFileTest, MoreThanSixteenMebibytesAreRefused) {
  constexpr size_t kMost = size_t{16} << 20;
  EXPECT_THAT(ReadJsonFile(PathOf("most.json", std::string(kMost, ' '))),
              IsOk());
  const std::string path = PathOf("more.json", std::string(kMost + 1, ' '));
  EXPECT_THAT(ReadJsonFile(path).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       path + ": more than 16777216 bytes"));
}

TEST(JsonFileTest, WhatIsNotJsonIsSaidWithItsPlace) {
  ASSERT_THAT(ParseJson("{\"a\": [1]}"), IsOk());
  for (const std::string text : {"", "{\n\"a\":,}", "1e999", "\"\xff\""}) {
    EXPECT_THAT(
        ParseJson(text).status(),
        StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("not JSON: ")))
        << text;
  }
  EXPECT_THAT(std::string(ParseJson("{\n\"a\":,}").status().message()),
              HasSubstr("line 2"));
}

TEST(JsonFileTest, ANumberThatNoDoubleHoldsIsSaidWithItsPlace) {
  for (const auto& [text, place] : std::map<std::string, std::string>{
           {"1e999", "line 1, column 1"},
           {"[\n 1,\n -2e999\n]", "line 3, column 2"},
           {"{\"a\":\n1e999}", "line 2, column 1"},
           {"[1, 1E+999]", "line 1, column 5"},
           {"[1e999", "line 1, column 2"}}) {
    EXPECT_THAT(ParseJson(text).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(StartsWith("not JSON: "), HasSubstr("999"),
                               EndsWith(", at " + place))))
        << text;
  }
}

TEST(JsonFileTest, WhatIsShownIsShortAndOfWholeCharacters) {
  EXPECT_EQ(ShownText("gr\xC3\xBC\xC3\x9F"
                      "e"),
            "gr\xC3\xBC\xC3\x9F"
            "e");
  EXPECT_EQ(ShownText("a\x1B[2Jb\n"), "a\\x1b[2Jb\\n");
  EXPECT_EQ(ShownText(std::string(199, 'x') + "\xC3\xBC"),
            std::string(199, 'x') + "... (201 bytes)");
}

TEST(JsonFileTest, AKeyThatAnObjectHasTwiceIsRefused) {
  EXPECT_THAT(ParseJson(R"([{"a": 1}, {"a": {"a": 2, "b": {}}, "b": 1}])"),
              IsOk());
  for (const std::string text :
       {R"({"a": 1, "b": 2, "a": 1})", R"([{"b": {"c": {}, "a": 1, "a": 2}}])",
        R"({"c": {"d": {}}, "a": 1, "a": {"d": 0}})"}) {
    EXPECT_THAT(
        ParseJson(text).status(),
        StatusIs(absl::StatusCode::kInvalidArgument, R"("a" is there twice)"))
        << text;
  }
}

absl::StatusOr<std::shared_ptr<const SelectionRules>> Parse(
    const std::string& text) {
  return ParseRulesFile(text, "r.json", CollectiveRegistry::Global());
}

// Parses a file that has `rule` on line 3, in its list of rules.
absl::StatusOr<std::shared_ptr<const SelectionRules>> ParseRule(
    const std::string& rule) {
  return Parse("{\"version\": 1,\n\"rules\": [\n" + rule + "\n]}\n");
}

TEST(RulesFileTest, EveryKeyIsTaken) {
  const auto rules = ParseRule(
      R"({"collective": "all_reduce", "layout": "2x4", "one_process": false,
          "min_bytes": 5, "max_bytes": 99, "algorithm": "RingReduce"},
         {"collective": "broadcast", "algorithm": "LocalBroadcast"})");
  ASSERT_THAT(rules, IsOk());
  ASSERT_EQ((*rules)->rules.size(), 2u);
  const SelectionRule& first = (*rules)->rules[0];
  EXPECT_EQ(first.type, CollectiveType::kAllReduce);
  EXPECT_EQ(first.layout, "2x4");
  EXPECT_EQ(first.one_process, false);
  EXPECT_EQ(first.min_bytes, 5);
  EXPECT_EQ(first.max_bytes, 99);
  EXPECT_EQ(first.implementation, "RingReduce");
  EXPECT_EQ(first.where, "r.json:3");
  const SelectionRule& second = (*rules)->rules[1];
  EXPECT_EQ(second.type, CollectiveType::kBroadcast);
  EXPECT_EQ(second.layout, "");
  EXPECT_FALSE(second.one_process.has_value());
  EXPECT_EQ(second.max_bytes, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(second.where, "r.json:5");
}

TEST(RulesFileTest, WhatIsWrittenIsReadBack) {
  const SelectionRules rules = {
      {{.layout = "2x4",
        .one_process = true,
        .max_bytes = 64,
        .implementation = "RingReduce"},
       {.layout = "2x4", .min_bytes = 65, .implementation = "TreeReduce"}},
      /*past_caches_from_bytes=*/1 << 20};
  const auto read = Parse(RulesFileText(rules));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(RulesFileText(**read), RulesFileText(rules));
  ASSERT_EQ((*read)->rules.size(), 2u);
  EXPECT_EQ((*read)->rules[1].where, "r.json:4");
  EXPECT_EQ((*read)->past_caches_from_bytes, 1 << 20);
  const auto none = Parse(RulesFileText({}));
  ASSERT_THAT(none, IsOk());
  EXPECT_TRUE((*none)->rules.empty());
  EXPECT_EQ((*none)->past_caches_from_bytes, std::nullopt);
}

struct BadRule {
  const char* rule;
  const char* reason;
};

TEST(RulesFileTest, WhatIsWrongWithARuleIsSaidWithItsLine) {
  const BadRule bad_rules[] = {
      {R"(7)", "a rule is an object, not number"},
      {R"({"algorithm": "RingReduce"})", "wanted a \"collective\""},
      {R"({"collective": "all_reduce"})", "wanted an \"algorithm\""},
      {R"({"collective": "reduce_all", "algorithm": "RingReduce"})",
       "reduce_all"},
      {R"({"collective": "all_reduce", "algorithm": "Rnig"})", "\"Rnig\""},
      {R"({"collective": "barrier", "algorithm": "RingReduce"})",
       "does not do barrier"},
      {R"({"collective": "all_reduce", "algorithm": "RingReduce",
           "max_byte": 5})",
       "unknown key \"max_byte\"; known: collective, layout"},
      {R"({"collective": "all_reduce", "algorithm": "RingReduce",
           "max_bytes": "many"})",
       "\"max_bytes\" is \"many\"; wanted a number of bytes"},
      {R"({"collective": "all_reduce", "algorithm": "RingReduce",
           "min_bytes": -1})",
       "\"min_bytes\" is -1"},
      {R"({"collective": "all_reduce", "algorithm": "RingReduce",
           "min_bytes": 18446744073709551615})",
       "\"min_bytes\" is 18446744073709551615"},
      {R"({"collective": "all_reduce", "algorithm": "RingReduce",
           "max_bytes": 1.5})",
       "\"max_bytes\" is 1.5"},
      {R"({"collective": "all_reduce", "algorithm": "RingReduce",
           "min_bytes": 9, "max_bytes": 5})",
       "no size is from 9 to 5 bytes"},
      {R"({"collective": "all_reduce", "algorithm": "RingReduce",
           "one_process": 1})",
       "\"one_process\" is 1; wanted true or false"},
      {R"({"collective": "all_reduce", "algorithm": "LocalReduce",
           "one_process": false})",
       "LocalReduce needs all members in one process"},
      {R"({"collective": "all_reduce", "algorithm": "RingReduce",
           "layout": 8})",
       "\"layout\" is 8; wanted a text"},
      {R"({"collective": "all_reduce", "algorithm": "RingReduce",
           "layout": "4x2 "})",
       "\"layout\": \"4x2 \" is no layout; wanted tasks x devices"},
      {R"({"collective": "all_reduce", "algorithm": "RingReduce",
           "layout": "99999999999x1"})",
       "\"layout\": \"99999999999x1\" has too many ranks"},
  };
  for (const BadRule& bad : bad_rules) {
    EXPECT_THAT(
        ParseRule(bad.rule),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(StartsWith("r.json:3: "), HasSubstr(bad.reason))))
        << bad.rule;
  }
}

TEST(RulesFileTest, ALayoutIsStoredAsGroupsCallTheirs) {
  for (const auto& [text, stored] : {std::pair{"2+2", "2x2"},
                                     {"02x2", "2x2"},
                                     {"1x8", "1x8"},
                                     {"3+1+2", "3+1+2"}}) {
    const auto rules = ParseRule(absl::StrCat(
        R"({"collective": "all_reduce", "algorithm": "RingReduce",)",
        R"("layout": ")", text, "\"}"));
    ASSERT_THAT(rules, IsOk());
    EXPECT_EQ((*rules)->rules[0].layout, stored);
  }
}

// Regression: such values overflowed the stack, or made errors of their own
// size.
TEST(RulesFileTest, ErrorsAreShortWhateverTheValue) {
  const int many = 1'000'000;
  const std::string deep = std::string(many, '[') + std::string(many, ']');
  const std::string text = '"' + std::string(many, 'x') + '"';
  for (const char* key : {"collective", "layout", "one_process", "min_bytes",
                          "max_bytes", "algorithm", "other"}) {
    for (const std::string& value : {deep, text}) {
      const std::string first =
          absl::StartsWith(key, "coll") ? "" : R"("collective": "all_reduce",)";
      const std::string error(
          ParseRule(absl::StrCat("{", first, "\"", key, "\": ", value, "}"))
              .status()
              .message());
      EXPECT_THAT(error, AllOf(StartsWith("r.json:3: "), HasSubstr(key)));
      EXPECT_LT(error.size(), 500u);
    }
  }
  EXPECT_LT(
      ParseRule(absl::StrCat("{", text, ": 1}")).status().message().size(),
      500u);
}

TEST(RulesFileTest, ErrorsBetweenRulesNameBothLines) {
  const std::string rule =
      R"({"collective": "all_reduce", "algorithm": "RingReduce"})";
  EXPECT_THAT(ParseRule(rule + ",\n" + rule),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(StartsWith("r.json:4: "), HasSubstr("overlap"),
                             HasSubstr("r.json:3"))));
}

TEST(RulesFileTest, TreesAreForTheDemandsThatRingsDoNotMeet) {
  EXPECT_THAT(
      ParseRule(R"({"collective": "all_reduce", "algorithm": "RingReduce"},)"
                R"({"collective": "all_reduce", "layout": "2x2",)"
                R"("algorithm": "TreeReduce"})"),
      IsOk());
}

TEST(RulesFileTest, AKeyThatAnObjectHasTwiceIsAnError) {
  EXPECT_THAT(ParseRule("{\"collective\": \"all_reduce\",\n\"algorithm\": "
                        "\"RingReduce\",\n\"algorithm\": \"TreeReduce\"}"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "r.json:5: \"algorithm\" for the second time"));
  EXPECT_THAT(Parse("{\"version\": 1, \"rules\": [{}],\n\"rules\": []}"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "r.json:2: \"rules\" for the second time"));
}

TEST(RulesFileTest, WhatIsNoRulesFileIsRefused) {
  for (const char* text :
       {"", "[]", "{}", R"({"rules": {}})", R"({"rules": []})",
        R"({"version": 2, "rules": []})", R"({"version": 1})",
        R"({"version": 1, "rules": [], "more": 1})",
        R"({"version": 1, "rules": [], "past_caches_from_bytes": "16M"})",
        R"({"version": 1, "rules": [], "past_caches_from_bytes": -1})",
        R"({"version": 1, "past_caches_from_bytes": [1], "rules": [{}]})",
        R"({"version": 1, "rules": [], "comment": [[{}]]})"}) {
    EXPECT_THAT(Parse(text), StatusIs(absl::StatusCode::kInvalidArgument,
                                      StartsWith("r.json:1: ")))
        << text;
  }
  EXPECT_THAT(Parse("{\"version\": 1,\n\"rules\": [\n{,"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StartsWith("r.json:3: not JSON: ")));
  EXPECT_THAT(Parse(R"({"version": 1, "comment": "x", "rules": []})"), IsOk());
}

TEST(RulesFileTest, AFileThatIsNotThereIsNamed) {
  EXPECT_THAT(ReadRulesFile("/nowhere/r.json", CollectiveRegistry::Global()),
              IsNotFound("/nowhere/r.json: cannot be read"));
}

TEST(RulesFileTest, AFileIsReadAndNamedByItsPath) {
  const std::string path = testing::TempDir() + "/rules.json";
  std::ofstream(path) << R"({"version": 1, "rules": [
{"collective": "all_reduce", "algorithm": "RingReduce"}]})";
  const auto rules = ReadRulesFile(path, CollectiveRegistry::Global());
  ASSERT_THAT(rules, IsOk());
  EXPECT_EQ((*rules)->rules[0].where, path + ":2");
}

}  // namespace rules_file_test
}  // namespace tutti
