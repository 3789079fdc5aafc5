#include "tools/files/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace output_file_test {

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

// Redirects standard output to a file while the object exists.
class StandardOutputTo {
 public:
  explicit StandardOutputTo(const std::string& path) : before_(dup(1)) {
    const int file = open(path.c_str(), O_WRONLY | O_CREAT, 0600);
    EXPECT_EQ(dup2(file, 1), 1) << path;
    close(file);
  }
  ~StandardOutputTo() {
    dup2(before_, 1);
    close(before_);
  }
  StandardOutputTo(const StandardOutputTo&) = delete;
  StandardOutputTo& operator=(const StandardOutputTo&) = delete;

 private:
  const int before_;
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

TEST_F(OutputFileTest, WritesThroughALink) {
  fs::create_directory(root_ / "deep");
  const fs::path target = root_ / "deep/target";
  std::ofstream(target) << "old";
  fs::create_symlink("deep/target", root_ / "first");
  fs::create_symlink(root_ / "first", root_ / "second");
  ASSERT_THAT(WriteOutputFile(root_ / "second", "new"), IsOk());
  EXPECT_EQ(Content(target), "new");
  EXPECT_TRUE(fs::is_symlink(root_ / "first"));
  EXPECT_TRUE(fs::is_symlink(root_ / "second"));

  fs::create_symlink("deep/none", root_ / "to_none");
  ASSERT_THAT(WriteOutputFile(root_ / "to_none", "content"), IsOk());
  EXPECT_EQ(Content(root_ / "deep/none"), "content");
}

TEST_F(OutputFileTest, LinksInACircleAreRefused) {
  fs::create_symlink("b", root_ / "a");
  fs::create_symlink("a", root_ / "b");
  const auto file = OutputFile::Create(root_ / "a");
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(std::string(file.status().message()),
              HasSubstr((root_ / "a").string()));
}

TEST_F(OutputFileTest, RefusesStandardOutput) {
  const fs::path path = root_ / "file";
  const fs::path link = root_ / "link";
  fs::create_symlink("/proc/self/fd/1", link);
  const StandardOutputTo file(path);
  for (const fs::path& name : {path, link}) {
    EXPECT_THAT(OutputFile::Create(name).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(name.string() + ": ")));
  }
  EXPECT_TRUE(fs::is_symlink(link));
}

TEST_F(OutputFileTest, ANameMayBeAsLongAsTheSystemAllows) {
  const fs::path path = root_ / std::string(250, 'n');
  ASSERT_THAT(WriteOutputFile(path, "old"), IsOk());
  ASSERT_THAT(WriteOutputFile(path, "new"), IsOk());
  EXPECT_EQ(Content(path), "new");
}

TEST_F(OutputFileTest, WhatCannotBeWrittenIsFoundAtOnce) {
  for (const fs::path& path :
       {root_ / std::string(256, 'n'), fs::path("/proc/file")}) {
    const auto file = OutputFile::Create(path);
    ASSERT_FALSE(file.ok());
    EXPECT_THAT(std::string(file.status().message()), HasSubstr(path.string()));
  }
  EXPECT_TRUE(fs::is_empty(root_));
}

TEST_F(OutputFileTest, WhatIsNeverWrittenLeavesNothing) {
  ASSERT_THAT(OutputFile::Create(root_ / "a/file").status(), IsOk());
  EXPECT_TRUE(fs::is_empty(root_));
}

}  // namespace output_file_test
}  // namespace tutti
