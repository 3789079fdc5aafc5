#include "tools/request/workload_options.h"

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"

namespace tutti {
namespace workload_options_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::string UsageErrorOf(const absl::StatusOr<T>& result) {
  EXPECT_EQ(ExitStatus(result.status()), 2) << result.status();
  return std::string(result.status().message());
}

TEST(WorkloadOptionsTest, ALayoutIsTasksTimesDevices) {
  const auto layout = ParseLayout("4x2", 8);
  ASSERT_THAT(layout, IsOk());
  EXPECT_EQ(*layout, GroupLayout::Uniform(4, 2));
}

TEST(WorkloadOptionsTest, ALayoutMayNameTheDevicesOfEachTask) {
  const auto layout = ParseLayout("3+1+2", 8);
  ASSERT_THAT(layout, IsOk());
  EXPECT_EQ(layout->ToString(), "3+1+2");
  EXPECT_EQ(layout->tasks()[2], (std::vector<int>{4, 5}));
}

TEST(WorkloadOptionsTest, OtherLayoutsAreRefused) {
  for (const char* text :
       {"", "8", "x", "4x", "x2", "4x2x1", "0x2", "4x0", "-1x2", "4 x2", "4X2",
        "1+", "+1", "1+0", "2x3+1", "99999999999999999999x1"}) {
    EXPECT_THAT(UsageErrorOf(ParseLayout(text, 8)),
                AllOf(HasSubstr(text), HasSubstr("such as 4x2")));
  }
}

TEST(WorkloadOptionsTest, LayoutsHaveALimit) {
  EXPECT_THAT(ParseLayout("2x4", 8), IsOk());
  EXPECT_THAT(ParseLayout("5+3", 8), IsOk());
  for (const char* text : {"3x3", "9x1", "1x9", "8+1", "1x999999999999",
                           "999999999999x999999999999"}) {
    EXPECT_THAT(UsageErrorOf(ParseLayout(text, 8)),
                AllOf(HasSubstr(text), HasSubstr("at most 8 ranks")));
  }
}

TEST(WorkloadOptionsTest, SizesAreOneByteToOnePebibyte) {
  EXPECT_EQ(*ParseSize("--bytes", "4K"), 4096);
  EXPECT_EQ(*ParseSize("--bytes", "1048576G"), int64_t{1} << 50);
  for (const char* text : {"0", "1048577G", "x", "-1"}) {
    EXPECT_THAT(UsageErrorOf(ParseSize("--bytes", text)),
                AllOf(HasSubstr("--bytes"), HasSubstr(text)));
  }
}

TEST(WorkloadOptionsTest, APermuteGoesToTheNextRankByDefault) {
  const auto workload = ParseWorkload({.collective = "permute"}, "int8", 3);
  ASSERT_THAT(workload, IsOk());
  EXPECT_THAT(workload->spec.permutation, ElementsAre(1, 2, 0));
}

TEST(WorkloadOptionsTest, WhatDoesNotGoTogetherIsRefused) {
  EXPECT_THAT(UsageErrorOf(ParseWorkload({.collective = "broadcast", .root = 3},
                                         "float32", 3)),
              HasSubstr("--root 3"));
  EXPECT_THAT(
      UsageErrorOf(ParseWorkload({.collective = "all_reduce"}, "bool", 3)),
      HasSubstr("bool"));
  EXPECT_THAT(
      UsageErrorOf(ParseWorkload({.collective = "all_reduce"}, "float8", 3)),
      HasSubstr("float8"));
}

TEST(WorkloadOptionsTest, NamesOfAllDTypesFillLinesThatAreNotTooLong) {
  std::vector<std::string> names;
  for (const DType dtype : kAllDTypes) names.emplace_back(Name(dtype));
  for (const size_t columns : {10, 42, 72}) {
    const std::string text = DTypeNames(columns);
    for (const auto line : absl::StrSplit(text, '\n')) {
      EXPECT_LE(line.size(), columns);
    }
    const std::string joined = absl::StrReplaceAll(text, {{"\n", " "}});
    EXPECT_EQ(joined, absl::StrJoin(names, ", "));
  }
}

}  // namespace workload_options_test
}  // namespace tutti
