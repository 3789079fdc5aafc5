#include "runtime/json_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>

#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace json_file_test {

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

}  // namespace json_file_test
}  // namespace tutti
