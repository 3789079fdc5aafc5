#include "tools/draw/topology_file.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"

namespace tutti {
namespace topology_file_test {

using ::testing::AllOf;
using ::testing::DoubleEq;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kLink[] = R"({"name": "a", "latency_us": 1, "gb_per_s": 5})";

std::string ErrorOf(const std::string& text) {
  const absl::Status status = ParseTopology(text, "t.json").status();
  EXPECT_TRUE(IsUsageError(status)) << status;
  EXPECT_THAT(std::string(status.message()), StartsWith("t.json: "));
  return std::string(status.message());
}

std::string ErrorOfLink(const std::string& link) {
  return ErrorOf(absl::StrCat(R"({"links": [)", kLink, ", ", link, "]}"));
}

TEST(TopologyFileTest, EveryFieldIsRead) {
  const auto cluster = ParseTopology(
      R"({"links": [{"name": "a", "latency_us": 1, "gb_per_s": 5},
                    {"name": "b", "tasks": 8, "latency_us": 2, "gb_per_s": 6},
                    {"name": "c", "latency_us": 0, "gb_per_s": 0.5}],
          "message_us": 0.25, "reduced_gb_per_s": 7, "copied_gb_per_s": 8,
          "host": {"tasks": 9, "processors": 10, "inline_bytes": 11}})",
      "t.json");
  ASSERT_THAT(cluster, IsOk());
  ASSERT_EQ(cluster->links.size(), 3);
  EXPECT_EQ(cluster->links[0].tasks, 1);
  EXPECT_EQ(cluster->links[1].name, "b");
  EXPECT_EQ(cluster->links[1].tasks, 8);
  EXPECT_THAT(cluster->links[1].cost.latency_seconds, DoubleEq(2e-6));
  EXPECT_EQ(cluster->links[2].tasks, 0);
  EXPECT_THAT(cluster->links[2].cost.bytes_per_second, DoubleEq(5e8));
  EXPECT_THAT(cluster->seconds_per_message, DoubleEq(0.25e-6));
  EXPECT_THAT(cluster->reduced_bytes_per_second, DoubleEq(7e9));
  EXPECT_THAT(cluster->copied_bytes_per_second, DoubleEq(8e9));
  EXPECT_EQ(cluster->host.tasks, 9);
  EXPECT_EQ(cluster->host.processors, 10);
  EXPECT_EQ(cluster->host.inline_bytes, 11);
}

TEST(TopologyFileTest, WhatIsNotSaidIsAsByDefault) {
  const auto cluster =
      ParseTopology(absl::StrCat(R"({"links": [)", kLink, "]}"), "t.json");
  ASSERT_THAT(cluster, IsOk());
  EXPECT_EQ(cluster->links[0].tasks, 0);
  EXPECT_EQ(cluster->reduced_bytes_per_second,
            ClusterModel().reduced_bytes_per_second);
  EXPECT_EQ(cluster->host.processors, 0);
}

TEST(TopologyFileTest, WhatIsNoJsonIsNamedByItsLine) {
  EXPECT_THAT(ErrorOf("{\n\"links\": [,]}"), HasSubstr("line 2, column 11"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr(R"(wanted is {"links": [...])"));
}

TEST(TopologyFileTest, FieldsThatCannotBeAreNamed) {
  EXPECT_THAT(ErrorOfLink("7"), HasSubstr("links[1] is number; wanted is {"));
  EXPECT_THAT(ErrorOfLink(R"({"name": "b", "latency_us": 1})"),
              HasSubstr(R"("links[1].gb_per_s" is missing)"));
  const std::string rest = R"(, "name": "b", "latency_us": 1})";
  EXPECT_THAT(ErrorOfLink(R"({"gb_per_s": 0)" + rest),
              HasSubstr(R"("links[1].gb_per_s" is 0; wanted is a number)"));
  EXPECT_THAT(ErrorOfLink(R"({"gb_per_s": "1")" + rest),
              HasSubstr(R"("links[1].gb_per_s" is "1"; wanted is a number)"));
  const auto error_of_tasks = [](const char* tasks) {
    return ErrorOf(absl::StrCat(
        R"({"links": [{"name": "a", "latency_us": 1, "gb_per_s": 1, "tasks": )",
        tasks, "}, ", kLink, "]}"));
  };
  EXPECT_THAT(error_of_tasks("1.5"),
              HasSubstr(R"("links[0].tasks" is 1.5; wanted is a whole)"));
  EXPECT_THAT(ErrorOfLink(R"({"gb_per_s": 1, "fly": 1)" + rest),
              AllOf(HasSubstr(R"(unknown field "links[1].fly"; known: )"),
                    HasSubstr("gb_per_s, latency_us, name, tasks")));
  EXPECT_THAT(error_of_tasks("1000000001"),
              HasSubstr("is 1000000001; wanted is a whole number from 1 to "
                        "1000000000"));
  EXPECT_THAT(
      ErrorOfLink(R"({"name": "a\nb", "latency_us": 1, "gb_per_s": 1})"),
      HasSubstr(R"("links[1].name" is "a\nb"; wanted is a text of one line)"));
  EXPECT_THAT(ErrorOfLink(R"({"gb_per_s": 1, "tasks": 4)" + rest),
              HasSubstr(R"("links[1].tasks" is 4; wanted is none: the last)"));
  EXPECT_THAT(ErrorOf(absl::StrCat(R"({"links": [)", kLink, ",", kLink, ",",
                                   kLink, "]}")),
              HasSubstr(R"("links[1].tasks" is missing: only the last)"));
  EXPECT_THAT(ErrorOfLink(R"({"gb_per_s": 5e-324)" + rest),
              HasSubstr("; wanted is a larger number"));
  EXPECT_THAT(
      ErrorOfLink(R"({"gb_per_s": 1e308)" + rest),
      HasSubstr(R"("links[1].gb_per_s" is 1e+308; wanted is a smaller)"));
  EXPECT_THAT(
      ErrorOf(absl::StrCat(R"({"links": [)", kLink, R"(], "message_us": -1})")),
      HasSubstr(R"("message_us" is -1; wanted is a number from 0 on)"));
  EXPECT_THAT(ErrorOf(R"({"links": []})"), HasSubstr("links is empty"));
}

// Regression: error messages were as long as the value.
TEST(TopologyFileTest, ErrorsAreShortWhateverTheFileHas) {
  const std::string name(100'000, '1');
  const std::string text = "\"" + name + "\"";
  for (const std::string& value : {name, text, "[" + name, "\x01" + text}) {
    EXPECT_LT(ErrorOfLink(R"({"name": "b", "latency_us": 1, "gb_per_s": )" +
                          value + "}")
                  .size(),
              500)
        << value.substr(0, 3);
  }
  const std::string link = R"({"name": "b", "latency_us": 1, "gb_per_s": 1, )";
  EXPECT_LT(ErrorOfLink(link + text + ": 1}").size(), 500);
  EXPECT_LT(ErrorOfLink(link + text + ": 1, " + text + ": 1}").size(), 500);
}

TEST(TopologyFileTest, HostsThatCannotBeAreNamed) {
  const auto error = [](const std::string& host) {
    return ErrorOf(
        absl::StrCat(R"({"links": [)", kLink, R"(], "host": )", host, "}"));
  };
  EXPECT_THAT(error("7"), HasSubstr(R"("host" is 7; wanted is {"processors")"));
  EXPECT_THAT(error(R"({"tasks": 2})"),
              HasSubstr(R"("host.processors" is missing)"));
  EXPECT_THAT(error(R"({"processors": 0})"),
              HasSubstr(R"("host.processors" is 0; wanted is a whole)"));
  EXPECT_THAT(error(R"({"processors": 2, "tasks": 0.5})"),
              HasSubstr(R"("host.tasks" is 0.5; wanted is a whole)"));
  EXPECT_THAT(error(R"({"processors": 2, "inline_bytes": -1})"),
              HasSubstr(R"("host.inline_bytes" is -1; wanted is a number)"));
  EXPECT_THAT(error(R"({"processors": 2, "caches": 1})"),
              AllOf(HasSubstr(R"(unknown field "host.caches"; known: )"),
                    HasSubstr("inline_bytes, processors, tasks")));
}

TEST(TopologyFileTest, AFileThatIsNotThereIsNamed) {
  const absl::Status status = ReadTopology("not/there.json").status();
  EXPECT_EQ(ExitStatus(status), 1);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not/there.json"));
}

}  // namespace topology_file_test
}  // namespace tutti
