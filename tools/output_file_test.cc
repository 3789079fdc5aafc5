#include "tools/output_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class OutputFileTest : public ::testing::Test {
 protected:
  OutputFileTest()
      : root_(fs::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~OutputFileTest() override { fs::remove_all(root_); }

  static std::string Content(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }

  const fs::path root_;
};

TEST_F(OutputFileTest, ReplacesWhatWasThere) {
  const std::string path = root_ / "file";
  ASSERT_THAT(WriteOutputFile(path, "old content"), IsOk());
  ASSERT_THAT(WriteOutputFile(path, "new"), IsOk());
  EXPECT_EQ(Content(path), "new");
}

TEST_F(OutputFileTest, MakesMissingDirectories) {
  const std::string path = root_ / "a/b/file";
  ASSERT_THAT(WriteOutputFile(path, "content"), IsOk());
  EXPECT_EQ(Content(path), "content");
}

TEST_F(OutputFileTest, ANameWithoutADirectoryIsInTheCurrentOne) {
  const fs::path before = fs::current_path();
  fs::current_path(root_);
  EXPECT_THAT(WriteOutputFile("file", "content"), IsOk());
  fs::current_path(before);
  EXPECT_EQ(Content(root_ / "file"), "content");
}

TEST_F(OutputFileTest, ADirectoryIsNoFile) {
  for (const std::string path : {root_ / "", root_ / "a/", root_}) {
    const absl::Status status = WriteOutputFile(path, "content");
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  }
  EXPECT_TRUE(fs::is_empty(root_));
}

TEST_F(OutputFileTest, WhatIsNoRegularFileIsNotReplaced) {
  const fs::path link = root_ / "link";
  fs::create_symlink("/dev/null", link);
  EXPECT_THAT(WriteOutputFile(link, "content"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("link: is no regular file")));
  EXPECT_TRUE(fs::is_symlink(link));
}

}  // namespace
}  // namespace tutti
