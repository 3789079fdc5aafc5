#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"
#include "tools/base/exits_with_testing.h"
#include "tools/base/temp_folder_testing.h"
#include "tools/files/output_files.h"
#include "tools/files/rank_files.h"

namespace tutti {
namespace files_test {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class InputFilesTest : public TempFolderTest {
 protected:
  InputFilesTest() {
    for (const char* name : {"rank0", "rank1", "rank2", "rank10", "a[1]"}) {
      Write(name, name);
    }
  }
};

TEST_F(InputFilesTest, PatternsGiveNaturalOrder) {
  EXPECT_THAT(
      ExpandInputs({{Path("rank*")}})->paths,
      ElementsAre(Path("rank0"), Path("rank1"), Path("rank2"), Path("rank10")));
}

TEST_F(InputFilesTest, ABackslashInAPatternTakesAwayASpecialMeaning) {
  Write("my dir/rank0", "");
  EXPECT_THAT(ExpandInputs({{Path("my\\ dir/rank*")}})->paths,
              ElementsAre(Path("my dir/rank0")));
}

TEST_F(InputFilesTest, WhatTheShellExpandedGivesTheSameOrder) {
  EXPECT_THAT(
      ExpandInputs(
          {{Path("rank0"), Path("rank1"), Path("rank10"), Path("rank2")}})
          ->paths,
      ElementsAre(Path("rank0"), Path("rank1"), Path("rank2"), Path("rank10")));
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
  EXPECT_THAT(ExpandInputs({{Path("a[1]")}})->paths, ElementsAre(Path("a[1]")));
}

TEST_F(InputFilesTest, APatternThatMatchesNothingIsAnErrorThatNamesIt) {
  EXPECT_THAT(ExpandInputs({{Path("rank*")}, {Path("nothing*")}}),
              IsNotFound("nothing*' matches no file"));
}

TEST_F(InputFilesTest, ADirectoryThatDoesNotExistIsNamed) {
  for (const char* name : {"no/dir/rank0", "no/dir/rank*", "no/*/rank0"}) {
    EXPECT_THAT(ExpandInputs({{Path(name)}}).status(),
                IsNotFound(absl::StrCat("the directory ", Path("no"),
                                        " does not exist")));
  }
}

TEST_F(InputFilesTest, AFileInThePlaceOfADirectoryIsNamed) {
  for (const char* name : {"rank0/file", "rank0/*"}) {
    EXPECT_THAT(ExpandInputs({{Path(name)}}).status(),
                IsNotFound(absl::StrCat(Path("rank0"), " is no directory")));
  }
}

TEST_F(InputFilesTest, DirectoriesWithoutAMatchAreNoError) {
  fs::create_directories(root_ / "run0");
  Write("run1/grads/rank0", "x");
  EXPECT_THAT(ExpandInputs({{Path("run*/grads/*")}})->paths,
              ElementsAre(Path("run1/grads/rank0")));
}

TEST(NaturalLessTest, OrdersNumbersByValue) {
  std::vector<std::string> names = {"rank10", "rank2", "rank1", "rank100"};
  std::sort(names.begin(), names.end(), NaturalLess);
  EXPECT_EQ(names,
            (std::vector<std::string>{"rank1", "rank2", "rank10", "rank100"}));
}

TEST(NaturalLessTest, ComparesEveryNumberOfAName) {
  EXPECT_TRUE(NaturalLess("step2/rank10.npy", "step10/rank2.npy"));
  EXPECT_TRUE(NaturalLess("step2/rank2.npy", "step2/rank10.npy"));
}

TEST(NaturalLessTest, NumbersOfAnyLengthWork) {
  const std::string nines(50, '9');
  EXPECT_TRUE(NaturalLess("r" + nines, "r1" + std::string(50, '0')));
  EXPECT_FALSE(NaturalLess("r1" + std::string(50, '0'), "r" + nines));
}

TEST(NaturalLessTest, IsAStrictTotalOrder) {
  const std::vector<std::string> ordered = {
      "", "0", "00", "01", "1", "1a", "9", "10", "a", "a0", "a00", "a1", "aa"};
  for (size_t i = 0; i < ordered.size(); ++i) {
    for (size_t j = 0; j < ordered.size(); ++j) {
      EXPECT_EQ(NaturalLess(ordered[i], ordered[j]), i < j)
          << ordered[i] << " " << ordered[j];
    }
  }
}

TEST(NaturalLessTest, BytesOutsideAsciiAreOrdinary) {
  EXPECT_TRUE(NaturalLess("a", "\xC3\xA9"));
  EXPECT_FALSE(NaturalLess("\xC3\xA9", "a"));
}

using OutputFileTest = TempFolderTest;

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
              IsInvalidArgument("link: is no regular file"));
  EXPECT_TRUE(fs::is_symlink(link));
}

TEST_F(OutputFileTest, WritesThroughALink) {
  const std::string target = Write("deep/target", "old");
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

class OutputFilesTest : public TempFolderTest {
 protected:
  // Names of all files under `directory`, hidden ones too, in order.
  static std::vector<std::string> NamesIn(const fs::path& directory) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory)) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  static absl::Span<const std::byte> Bytes(const std::string& text) {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
  }
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
  Write("a", "old");
  auto files = OutputFiles::Create(root_);
  ASSERT_THAT(files, IsOk());
  ASSERT_THAT((*files)->Write("a", "new", {}), IsOk());
  EXPECT_EQ(Content(Path("a")), "old");
  ASSERT_THAT((*files)->Commit(), IsOk());
  EXPECT_EQ(Content(Path("a")), "new");
}

TEST_F(OutputFilesTest, ALinkStaysAndWhatItLeadsToIsReplacedOrComesBack) {
  fs::create_directories(Path("out"));
  Write("far/old", "old");
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

TEST_F(OutputFilesTest, WhatComesMeanwhileStaysWhereNothingIsReplaced) {
  const auto files = OutputFiles::Create(root_, OutputFiles::Existing::kStay);
  ASSERT_THAT(files, IsOk());
  for (const char* name : {"a", "b"}) {
    ASSERT_THAT((*files)->Write(name, "new", {}), IsOk());
  }
  Write("b", "theirs");
  EXPECT_THAT((*files)->Commit(), IsAlreadyExists(Path("b")));
  (*files)->Discard();
  EXPECT_EQ(Content(Path("b")), "theirs");
  EXPECT_THAT(NamesIn(root_), ElementsAre("b"));
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
  Write("file", "x");
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
  Write("a", "old");
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
  Write("a", "old");
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
  EXPECT_THAT((*files)->Write("b", "head", {}), IsCancelled("given up"));
  EXPECT_THAT((*files)->Commit(), IsCancelled("given up"));
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

class RankFilesTest : public TempFolderTest {
 protected:
  std::string Make(const std::string& name) { return Write(name, "x"); }
};

TEST_F(RankFilesTest, InputsAreNotReplaced) {
  const std::string input = Make("rank1.npy");
  EXPECT_THAT(CheckReplacesNoInput(root_, {"rank0.npy", "rank2.npy"}, {input}),
              IsOk());
  EXPECT_THAT(CheckReplacesNoInput(root_, {"rank0.npy", "rank1.npy"}, {input}),
              ExitsWith(2, HasSubstr(input)));
}

TEST_F(RankFilesTest, AnInputIsKnownByWhateverPath) {
  Make("rank1.npy");
  fs::create_directory_symlink(root_, root_ / "link");
  for (const fs::path& path :
       {root_ / "." / "rank1.npy", root_ / "link" / "rank1.npy"}) {
    EXPECT_EQ(ExitStatus(CheckReplacesNoInput(root_, {"rank1.npy"}, {path})), 2)
        << path;
  }
}

TEST_F(RankFilesTest, WhatIsNotThereIsNotReplaced) {
  EXPECT_THAT(CheckReplacesNoInput(root_ / "new", {"rank0.npy"},
                                   {Make("rank0.npy"), root_ / "missing"}),
              IsOk());
}

TEST_F(RankFilesTest, NamesThatLeadToOneFileAreRefused) {
  const std::vector<std::string> names = {"rank0.npy", "rank1.npy",
                                          "rank2.npy"};
  EXPECT_THAT(CheckFilesApart(root_, names), IsOk());
  EXPECT_THAT(CheckFilesApart(root_ / "new", names), IsOk());
  // The function that makes the directory reports the long name.
  EXPECT_THAT(CheckFilesApart(root_ / std::string(300, 'x'), names), IsOk());
  Make("rank0.npy");
  fs::create_symlink("other", root_ / "rank1.npy");
  EXPECT_THAT(CheckFilesApart(root_, names), IsOk());
  for (const char* target : {"./other", "rank0.npy"}) {
    fs::remove(root_ / "rank2.npy");
    fs::create_symlink(target, root_ / "rank2.npy");
    EXPECT_THAT(CheckFilesApart(root_, names),
                ExitsWith(2, HasSubstr("and rank2.npy lead to one file")))
        << target;
  }
}

TEST_F(RankFilesTest, OthersAreRankFilesOfOtherNamesInNaturalOrder) {
  for (const char* name :
       {"rank0.npy", "rank10.npy", "rank9.npy", "rank.npy", "rankx.npy",
        "rank3.npz", "my_rank3.npy", "rank-1.npy", ".rank4.npy.7.0.tmp"}) {
    Make(name);
  }
  EXPECT_THAT(OtherRankFiles(root_, {"rank0.npy", "rank1.npy"}),
              ElementsAre("rank9.npy", "rank10.npy"));
  EXPECT_THAT(OtherRankFiles(root_ / "missing", {}), IsEmpty());
}

}  // namespace files_test
}  // namespace tutti
