#include "tools/cluster_file.h"

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tools/exit_status.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

std::string ErrorOf(const std::string& text) {
  const auto words = ParseClusterFile(text, "c.json");
  EXPECT_EQ(ExitStatus(words.status()), 2) << text;
  return std::string(words.status().message());
}

TEST(ClusterFileTest, ValuesAreThoseOfTheOptions) {
  const auto words = ParseClusterFile(
      R"({"job": "trainer", "tasks": ["a:1", "b:2"], "devices_per_task": 2,
          "start_timeout": 1.5, "insecure": true, "tls_cert": "c.pem"})",
      "c.json");
  ASSERT_THAT(words, IsOk());
  EXPECT_THAT(*words,
              UnorderedElementsAre(
                  Pair("job", "trainer"), Pair("cluster", "a:1,b:2"),
                  Pair("devices-per-task", "2"), Pair("start-timeout", "1.5"),
                  Pair("insecure", "true"), Pair("tls-cert", "c.pem")));
}

TEST(ClusterFileTest, WhatIsNotJsonIsToldWhere) {
  EXPECT_THAT(ErrorOf("{"),
              StartsWith("c.json: not JSON: parse error at line"));
  EXPECT_THAT(ErrorOf(""), StartsWith("c.json: not JSON: "));
  EXPECT_THAT(ErrorOf("\xFF"), StartsWith("c.json: not JSON: "));
}

TEST(ClusterFileTest, OtherJsonIsRefused) {
  EXPECT_EQ(ErrorOf("[]"),
            R"(c.json: wanted is {"tasks": ["host1:7000", ...], ...})");
}

TEST(ClusterFileTest, UnknownKeysAreToldTheKnownOnes) {
  EXPECT_THAT(ErrorOf(R"({"task": 0})"),
              StartsWith("c.json: unknown key \"task\"; known: job, tasks,"));
}

TEST(ClusterFileTest, TasksAreAListOfTexts) {
  for (const char* tasks : {"1", "\"a:1\"", "[]", "[1]", "[\"\"]",
                            "[\"a:1,b:2\"]", "{}", "null", "[[\"a:1\"]]"}) {
    EXPECT_EQ(ErrorOf(absl::StrCat("{\"tasks\": ", tasks, "}")),
              "c.json: \"tasks\" is not a list of addresses, [\"host1:7000\", "
              "...]")
        << tasks;
  }
}

TEST(ClusterFileTest, OtherValuesAreSimple) {
  EXPECT_EQ(ErrorOf(R"({"job": ["x"]})"),
            "c.json: \"job\" is array; wanted is a text or a number");
  EXPECT_THAT(ErrorOf(R"({"port": null})"), HasSubstr("\"port\" is null"));
}

TEST(ClusterFileTest, FilesAreRead) {
  const std::string path = ::testing::TempDir() + "/cluster.json";
  std::ofstream(path) << R"({"tasks": ["a:1"]})";
  EXPECT_THAT(*ReadClusterFile(path),
              UnorderedElementsAre(Pair("cluster", "a:1")));
}

TEST(ClusterFileTest, FilesThatCannotBeReadAreNamed) {
  EXPECT_THAT(ReadClusterFile("/nowhere.json"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("/nowhere.json: cannot be read")));
  EXPECT_THAT(ReadClusterFile(::testing::TempDir()).status(),
              ::testing::Not(IsOk()));
}

}  // namespace
}  // namespace tutti
