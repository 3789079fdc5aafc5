#include "tools/input_files.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tutti {
namespace {

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
  EXPECT_THAT(*files, ElementsAre(Path("rank0"), Path("rank1"), Path("rank2"),
                                  Path("rank10")));
}

TEST_F(InputFilesTest, WhatTheShellExpandedGivesTheSameOrder) {
  const auto files = ExpandInputs(
      {{Path("rank0"), Path("rank1"), Path("rank10"), Path("rank2")}});
  ASSERT_THAT(files, IsOk());
  EXPECT_THAT(*files, ElementsAre(Path("rank0"), Path("rank1"), Path("rank2"),
                                  Path("rank10")));
}

TEST_F(InputFilesTest, OptionsKeepTheirOrder) {
  const auto files = ExpandInputs({{Path("rank2")}, {Path("rank[01]")}});
  ASSERT_THAT(files, IsOk());
  EXPECT_THAT(*files, ElementsAre(Path("rank2"), Path("rank0"), Path("rank1")));
}

TEST_F(InputFilesTest, AnExistingFileIsNoPattern) {
  const auto files = ExpandInputs({{Path("a[1]")}});
  ASSERT_THAT(files, IsOk());
  EXPECT_THAT(*files, ElementsAre(Path("a[1]")));
}

TEST_F(InputFilesTest, APatternThatMatchesNothingIsAnErrorThatNamesIt) {
  const auto files = ExpandInputs({{Path("rank*")}, {Path("nothing*")}});
  EXPECT_EQ(files.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(files.status().message()), HasSubstr("nothing*"));
}

}  // namespace
}  // namespace tutti
