#include "tools/files/rank_files.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"

namespace tutti {
namespace rank_files_test {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RankFilesTest : public ::testing::Test {
 protected:
  RankFilesTest()
      : root_(fs::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~RankFilesTest() override { fs::remove_all(root_); }

  std::string Make(const std::string& name) {
    std::ofstream(root_ / name) << "x";
    return root_ / name;
  }

  const fs::path root_;
};

TEST_F(RankFilesTest, InputsAreNotReplaced) {
  const std::string input = Make("rank1.npy");
  EXPECT_THAT(CheckReplacesNoInput(root_, {"rank0.npy", "rank2.npy"}, {input}),
              IsOk());
  const absl::Status status =
      CheckReplacesNoInput(root_, {"rank0.npy", "rank1.npy"}, {input});
  EXPECT_EQ(ExitStatus(status), 2);
  EXPECT_THAT(std::string(status.message()), HasSubstr(input));
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
    const absl::Status status = CheckFilesApart(root_, names);
    EXPECT_EQ(ExitStatus(status), 2) << target;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("and rank2.npy lead to one file"));
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

}  // namespace rank_files_test
}  // namespace tutti
