#include "tools/files/input_files.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace input_files_test {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class InputFilesTest : public ::testing::Test {
 protected:
  InputFilesTest() : root_(fs::path(::testing::TempDir()) / "input_files") {
    fs::remove_all(root_);
    fs::create_directories(root_);
    for (const char* name : {"rank0", "rank1", "rank2", "rank10", "a[1]"}) {
      std::ofstream(root_ / name) << name;
    }
  }
  ~InputFilesTest() override { fs::remove_all(root_); }

  std::string Path(const std::string& name) const { return root_ / name; }

  const fs::path root_;
};

TEST_F(InputFilesTest, PatternsGiveNaturalOrder) {
  const auto files = ExpandInputs({{Path("rank*")}});
  ASSERT_THAT(files, IsOk());
  EXPECT_THAT(files->paths, ElementsAre(Path("rank0"), Path("rank1"),
                                        Path("rank2"), Path("rank10")));
}

TEST_F(InputFilesTest, ABackslashInAPatternTakesAwayASpecialMeaning) {
  fs::create_directory(root_ / "my dir");
  std::ofstream(root_ / "my dir" / "rank0");
  const auto files = ExpandInputs({{Path("my\\ dir/rank*")}});
  ASSERT_THAT(files, IsOk());
  EXPECT_THAT(files->paths, ElementsAre(Path("my dir/rank0")));
}

TEST_F(InputFilesTest, WhatTheShellExpandedGivesTheSameOrder) {
  const auto files = ExpandInputs(
      {{Path("rank0"), Path("rank1"), Path("rank10"), Path("rank2")}});
  ASSERT_THAT(files, IsOk());
  EXPECT_THAT(files->paths, ElementsAre(Path("rank0"), Path("rank1"),
                                        Path("rank2"), Path("rank10")));
}

TEST_F(InputFilesTest, AnotherOrderThanTheGivenOneIsTold) {
  for (const std::vector<std::string>& words :
       {std::vector{Path("rank10"), Path("rank2")},
        {Path("rank[12]*"), Path("rank0")}}) {
    const auto files = ExpandInputs({words});
    ASSERT_THAT(files, IsOk());
    EXPECT_TRUE(files->reordered) << words[0];
  }
}

TEST_F(InputFilesTest, TheGivenOrderIsNotTold) {
  for (const std::vector<std::string>& words :
       {std::vector{Path("rank*")},
        {Path("rank0"), Path("rank2"), Path("rank10")},
        {Path("a[1]"), Path("rank*")}}) {
    const auto files = ExpandInputs({words});
    ASSERT_THAT(files, IsOk());
    EXPECT_FALSE(files->reordered) << words[0];
  }
}

TEST_F(InputFilesTest, OptionsKeepTheirOrder) {
  const auto files = ExpandInputs({{Path("rank2")}, {Path("rank[01]")}});
  ASSERT_THAT(files, IsOk());
  EXPECT_FALSE(files->reordered);
  EXPECT_THAT(files->paths,
              ElementsAre(Path("rank2"), Path("rank0"), Path("rank1")));
}

TEST_F(InputFilesTest, AnExistingFileIsNoPattern) {
  const auto files = ExpandInputs({{Path("a[1]")}});
  ASSERT_THAT(files, IsOk());
  EXPECT_THAT(files->paths, ElementsAre(Path("a[1]")));
}

TEST_F(InputFilesTest, APatternThatMatchesNothingIsAnErrorThatNamesIt) {
  const auto files = ExpandInputs({{Path("rank*")}, {Path("nothing*")}});
  EXPECT_EQ(files.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(files.status().message()), HasSubstr("nothing*"));
}

TEST_F(InputFilesTest, ADirectoryThatDoesNotExistIsNamed) {
  for (const char* name : {"no/dir/rank0", "no/dir/rank*", "no/*/rank0"}) {
    EXPECT_THAT(ExpandInputs({{Path(name)}}).status(),
                StatusIs(absl::StatusCode::kNotFound,
                         HasSubstr(absl::StrCat("the directory ", Path("no"),
                                                " does not exist"))));
  }
}

TEST_F(InputFilesTest, AFileInThePlaceOfADirectoryIsNamed) {
  for (const char* name : {"rank0/file", "rank0/*"}) {
    EXPECT_THAT(
        ExpandInputs({{Path(name)}}).status(),
        StatusIs(absl::StatusCode::kNotFound,
                 HasSubstr(absl::StrCat(Path("rank0"), " is no directory"))));
  }
}

TEST_F(InputFilesTest, DirectoriesWithoutAMatchAreNoError) {
  fs::create_directories(root_ / "run0");
  fs::create_directories(root_ / "run1/grads");
  std::ofstream(root_ / "run1/grads/rank0") << "x";
  const auto files = ExpandInputs({{Path("run*/grads/*")}});
  ASSERT_THAT(files, IsOk());
  EXPECT_THAT(files->paths, ElementsAre(Path("run1/grads/rank0")));
}

}  // namespace input_files_test
}  // namespace tutti
