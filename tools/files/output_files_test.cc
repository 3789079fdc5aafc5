#include "tools/files/output_files.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace output_files_test {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class OutputFilesTest : public ::testing::Test {
 protected:
  OutputFilesTest()
      : root_(fs::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~OutputFilesTest() override { fs::remove_all(root_); }

  std::string Path(const std::string& name) const { return root_ / name; }

  // Names of all files under `directory`, hidden ones too, in order.
  static std::vector<std::string> NamesIn(const fs::path& directory) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory)) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  static std::string Content(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }

  static absl::Span<const std::byte> Bytes(const std::string& text) {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
  }

  const fs::path root_;
};

TEST_F(OutputFilesTest, NothingHasItsNameBeforeCommit) {
  auto files = OutputFiles::Create(root_);
  ASSERT_THAT(files, IsOk());
  ASSERT_THAT((*files)->Write("a", "head ", Bytes("body")), IsOk());
  ASSERT_THAT((*files)->Write("b", "", Bytes("")), IsOk());
  EXPECT_FALSE(fs::exists(Path("a")));
  EXPECT_FALSE(fs::exists(Path("b")));
  ASSERT_THAT((*files)->Commit(), IsOk());
  EXPECT_THAT(NamesIn(root_), ElementsAre("a", "b"));
  EXPECT_EQ(Content(Path("a")), "head body");
  EXPECT_EQ(Content(Path("b")), "");
}

TEST_F(OutputFilesTest, NothingIsLeftWithoutCommit) {
  {
    auto files = OutputFiles::Create(Path("new/deep"));
    ASSERT_THAT(files, IsOk());
    ASSERT_THAT((*files)->Write("a", "head", Bytes("body")), IsOk());
    EXPECT_TRUE(fs::exists(Path("new/deep")));
  }
  EXPECT_THAT(NamesIn(root_), IsEmpty());
}

TEST_F(OutputFilesTest, ReplacesWhatHasTheName) {
  std::ofstream(Path("a")) << "old";
  auto files = OutputFiles::Create(root_);
  ASSERT_THAT(files, IsOk());
  ASSERT_THAT((*files)->Write("a", "new", {}), IsOk());
  EXPECT_EQ(Content(Path("a")), "old");
  ASSERT_THAT((*files)->Commit(), IsOk());
  EXPECT_EQ(Content(Path("a")), "new");
}

TEST_F(OutputFilesTest, ALinkStaysAndWhatItLeadsToIsReplacedOrComesBack) {
  fs::create_directories(Path("out"));
  fs::create_directories(Path("far"));
  std::ofstream(Path("far/old")) << "old";
  fs::create_symlink("../far/old", Path("out/a"));
  fs::create_symlink("../far/new", Path("out/b"));  // Does not exist.
  for (const bool keep : {false, true}) {
    auto files = OutputFiles::Create(Path("out"));
    ASSERT_THAT(files, IsOk());
    for (const char* name : {"a", "b"}) {
      ASSERT_THAT((*files)->Write(name, "new", {}), IsOk());
    }
    EXPECT_EQ(Content(Path("far/old")), "old");
    ASSERT_THAT((*files)->Replace(), IsOk());
    EXPECT_EQ(Content(Path("far/old")), "new");
    EXPECT_EQ(Content(Path("far/new")), "new");
    if (keep) {
      ASSERT_THAT((*files)->Keep(), IsOk());
    }
    files->reset();
    EXPECT_TRUE(fs::is_symlink(Path("out/a")));
    EXPECT_TRUE(fs::is_symlink(Path("out/b")));
    EXPECT_EQ(Content(Path("far/old")), keep ? "new" : "old");
    EXPECT_EQ(fs::exists(Path("far/new")), keep);
    EXPECT_THAT(NamesIn(Path("out")), ElementsAre("a", "b"));
  }
  EXPECT_THAT(NamesIn(Path("far")), ElementsAre("new", "old"));
}

TEST_F(OutputFilesTest, WhatIsNoRegularFileIsNotReplaced) {
  fs::create_symlink("/dev/null", Path("null"));
  fs::create_symlink("nowhere/at", Path("lost"));
  fs::create_symlink("ring", Path("ring"));
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  auto files = OutputFiles::Create(root_);
  ASSERT_THAT(files, IsOk());
  for (const char* name : {"null", "lost", "ring", "pipe"}) {
    const absl::Status status = (*files)->Write(name, "x", {});
    EXPECT_THAT(std::string(status.message()), StartsWith(Path(name)));
  }
  EXPECT_THAT((*files)->Commit(), IsOk());
  EXPECT_THAT(NamesIn(root_), ElementsAre("lost", "null", "pipe", "ring"));
  EXPECT_TRUE(fs::is_fifo(Path("pipe")));
}

TEST_F(OutputFilesTest, MakesMissingDirectoriesAndKeepsThemOnCommit) {
  auto files = OutputFiles::Create(Path("new/deep/"));
  ASSERT_THAT(files, IsOk());
  ASSERT_THAT((*files)->Write("a", "x", {}), IsOk());
  ASSERT_THAT((*files)->Commit(), IsOk());
  EXPECT_THAT((*files)->paths(), ElementsAre(Path("new/deep/a")));
  files->reset();
  EXPECT_EQ(Content(Path("new/deep/a")), "x");
}

TEST_F(OutputFilesTest, LeavesADirectoryThatSomebodyElseUses) {
  {
    auto files = OutputFiles::Create(Path("new"));
    ASSERT_THAT(files, IsOk());
    std::ofstream(Path("new/other")) << "theirs";
  }
  EXPECT_EQ(Content(Path("new/other")), "theirs");
}

TEST_F(OutputFilesTest, TheLastOneLeavesNoDirectoryThatSeveralWroteTo) {
  auto mine = OutputFiles::Create(Path("new/deep"));
  auto others = OutputFiles::Create(Path("new/deep"));
  ASSERT_THAT(mine, IsOk());
  ASSERT_THAT(others, IsOk());
  ASSERT_THAT((*mine)->Write("a", "head", Bytes("body")), IsOk());
  ASSERT_THAT((*others)->Write("b", "head", Bytes("body")), IsOk());
  (*mine)->Discard();
  EXPECT_TRUE(fs::exists(Path("new/deep")));
  others->reset();
  mine->reset();
  EXPECT_THAT(NamesIn(root_), IsEmpty());
}

TEST_F(OutputFilesTest, AFileInThePlaceOfTheDirectoryIsAnErrorThatNamesIt) {
  std::ofstream(Path("file")) << "x";
  const auto at_file = OutputFiles::Create(Path("file"));
  EXPECT_THAT(std::string(at_file.status().message()), HasSubstr(Path("file")));
  const auto below = OutputFiles::Create(Path("file/below"));
  EXPECT_THAT(std::string(below.status().message()),
              HasSubstr(Path("file/below")));
}

TEST_F(OutputFilesTest, ALinkThatLeadsNowhereIsAnErrorThatSaysSo) {
  fs::create_symlink("none", Path("link"));
  EXPECT_THAT(std::string(OutputFiles::Create(Path("link")).status().message()),
              HasSubstr("/link: is a link that leads nowhere"));
}

TEST_F(OutputFilesTest, ADirectoryInThePlaceOfAFileFailsBeforeCommit) {
  fs::create_directory(Path("a"));
  auto files = OutputFiles::Create(root_);
  ASSERT_THAT(files, IsOk());
  const absl::Status status = (*files)->Write("a", "x", {});
  EXPECT_THAT(std::string(status.message()), HasSubstr(Path("a")));
  files->reset();
  EXPECT_THAT(NamesIn(root_), ElementsAre("a"));
}

TEST_F(OutputFilesTest, AFailedRenameLeavesNoTemporaryFiles) {
  auto files = OutputFiles::Create(root_);
  ASSERT_THAT(files, IsOk());
  ASSERT_THAT((*files)->Write("a", "x", {}), IsOk());
  fs::create_directory(Path("a"));  // Made after the check.
  EXPECT_FALSE((*files)->Commit().ok());
  files->reset();
  EXPECT_THAT(NamesIn(root_), ElementsAre("a"));
}

TEST_F(OutputFilesTest, AFailedRenameLeavesAllAsItWas) {
  std::ofstream(Path("a")) << "old";
  auto files = OutputFiles::Create(root_);
  ASSERT_THAT(files, IsOk());
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_THAT((*files)->Write(name, "new", {}), IsOk());
  }
  fs::create_directories(Path("c/in the way"));
  EXPECT_FALSE((*files)->Commit().ok());
  EXPECT_EQ(Content(Path("a")), "old");
  files->reset();
  EXPECT_THAT(NamesIn(root_), ElementsAre("a", "c"));
}

TEST_F(OutputFilesTest, WhatWasReplacedComesBackUnlessItIsKept) {
  std::ofstream(Path("a")) << "old";
  auto files = OutputFiles::Create(root_);
  ASSERT_THAT(files, IsOk());
  for (const char* name : {"a", "b"}) {
    ASSERT_THAT((*files)->Write(name, "new", {}), IsOk());
  }
  ASSERT_THAT((*files)->Replace(), IsOk());
  EXPECT_EQ(Content(Path("a")), "new");
  EXPECT_EQ(Content(Path("b")), "new");
  (*files)->Discard();
  EXPECT_EQ(Content(Path("a")), "old");
  EXPECT_THAT(NamesIn(root_), ElementsAre("a"));
  EXPECT_EQ((*files)->Keep().code(), absl::StatusCode::kCancelled);
}

TEST_F(OutputFilesTest, NothingIsLeftAndNothingIsWrittenAfterDiscard) {
  auto files = OutputFiles::Create(Path("new/deep"));
  ASSERT_THAT(files, IsOk());
  ASSERT_THAT((*files)->Write("a", "head", Bytes("body")), IsOk());
  (*files)->Discard();
  EXPECT_THAT(NamesIn(root_), IsEmpty());
  EXPECT_THAT((*files)->Write("b", "head", {}),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("given up")));
  EXPECT_THAT((*files)->Commit(),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("given up")));
  EXPECT_THAT(NamesIn(root_), IsEmpty());
}

TEST_F(OutputFilesTest, WhatIsCommittedCannotBeDiscarded) {
  auto files = OutputFiles::Create(root_);
  ASSERT_THAT(files, IsOk());
  ASSERT_THAT((*files)->Write("a", "x", {}), IsOk());
  ASSERT_THAT((*files)->Commit(), IsOk());
  (*files)->Discard();
  EXPECT_THAT(NamesIn(root_), ElementsAre("a"));
}

// Simulates a full disk: the kernel refuses to let any file grow beyond a
// limit.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes)
      : old_handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_limit_);
    const rlimit limit = {bytes, old_limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_limit_);
    signal(SIGXFSZ, old_handler_);
  }

 private:
  void (*old_handler_)(int);
  rlimit old_limit_;
};

TEST_F(OutputFilesTest, AWriteThatFailsHalfwayNamesTheFileAndLeavesNothing) {
  const std::string body(10000, 'x');
  auto files = OutputFiles::Create(root_);
  ASSERT_THAT(files, IsOk());
  ASSERT_THAT((*files)->Write("a", "small", {}), IsOk());
  absl::Status status;
  {
    FileSizeLimit limit(4096);
    status = (*files)->Write("b", "head", Bytes(body));
  }
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(Path("b") + ": cannot be written"));
  files->reset();
  EXPECT_THAT(NamesIn(root_), IsEmpty());
}

}  // namespace output_files_test
}  // namespace tutti
