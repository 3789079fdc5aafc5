#include "tools/cluster/cluster_file.h"

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"

namespace tutti {
namespace cluster_file_test {

using ::testing::AllOf;
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

TEST(ClusterFileTest, ErrorsAreShortWhateverTheFileHas) {
  const std::string text = "\"" + std::string(100'000, 'x') + "\"";
  EXPECT_LT(ErrorOf("{" + text + ": 1}").size(), 500);
  EXPECT_LT(ErrorOf(R"({"insecure": )" + text + "}").size(), 500);
}

TEST(ClusterFileTest, OtherJsonIsRefused) {
  EXPECT_EQ(ErrorOf("[]"),
            R"(c.json: wanted is {"tasks": ["host1:7000", ...], ...})");
}

TEST(ClusterFileTest, UnknownKeysAreToldTheKnownOnes) {
  EXPECT_THAT(ErrorOf(R"({"task": 0})"),
              StartsWith("c.json: unknown key \"task\"; known: tasks, job,"));
}

TEST(ClusterFileTest, TasksAreAListOfAddresses) {
  for (const char* tasks : {"1", "\"a:1\"", "[]", "{}", "null"}) {
    EXPECT_THAT(ErrorOf(absl::StrCat("{\"tasks\": ", tasks, "}")),
                AllOf(StartsWith("c.json: \"tasks\" is "),
                      HasSubstr("; wanted is a list of one address or more, "
                                "[\"host1")))
        << tasks;
  }
  for (const char* task : {"1", "\"\"", "\"a:1,b:2\"", "[\"a:1\"]", "null"}) {
    EXPECT_THAT(ErrorOf(absl::StrCat(R"({"tasks": ["a:1", )", task, "]}")),
                AllOf(StartsWith("c.json: entry 1 of \"tasks\" is "),
                      HasSubstr("; wanted is an address, \"host1:7000\"")))
        << task;
  }
}

TEST(ClusterFileTest, ValuesHaveTheirTypes) {
  EXPECT_EQ(ErrorOf(R"({"job": ["x"]})"),
            "c.json: \"job\" is array; wanted is a text");
  EXPECT_EQ(ErrorOf(R"({"job": 3})"), "c.json: \"job\" is 3; wanted is a text");
  EXPECT_EQ(ErrorOf(R"({"port": null})"),
            "c.json: \"port\" is null; wanted is a number");
  EXPECT_EQ(ErrorOf(R"({"devices_per_task": "2"})"),
            "c.json: \"devices_per_task\" is \"2\"; wanted is a number");
  for (const char* insecure : {"1", "\"yes\"", "\"true\""}) {
    EXPECT_EQ(ErrorOf(absl::StrCat("{\"insecure\": ", insecure, "}")),
              absl::StrCat("c.json: \"insecure\" is ", insecure,
                           "; wanted is true or false"));
  }
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

}  // namespace cluster_file_test
}  // namespace tutti
