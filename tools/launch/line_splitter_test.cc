#include "tools/launch/line_splitter.h"

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti {
namespace line_splitter_test {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LineSplitterTest : public ::testing::Test {
 protected:
  void Add(absl::string_view bytes) {
    splitter_.Add(
        bytes, [this](absl::string_view line) { lines_.emplace_back(line); });
  }
  void Finish() {
    splitter_.Finish(
        [this](absl::string_view line) { lines_.emplace_back(line); });
  }

  LineSplitter splitter_;
  std::vector<std::string> lines_;
};

TEST_F(LineSplitterTest, LinesComeWithTheirNewlineWhenItComes) {
  Add("on");
  EXPECT_THAT(lines_, IsEmpty());
  Add("e\n\ntwo\nthr");
  EXPECT_THAT(lines_, ElementsAre("one\n", "\n", "two\n"));
  Add("ee\n");
  Finish();
  EXPECT_THAT(lines_, ElementsAre("one\n", "\n", "two\n", "three\n"));
}

TEST_F(LineSplitterTest, TheLastLineMayHaveNoNewline) {
  Add("one\ntwo");
  Finish();
  Finish();
  EXPECT_THAT(lines_, ElementsAre("one\n", "two"));
}

TEST_F(LineSplitterTest, LinesOfAnySizeArriveUnchanged) {
  for (size_t size :
       {size_t{1}, LineSplitter::kMaxPieceBytes - 1,
        LineSplitter::kMaxPieceBytes, LineSplitter::kMaxPieceBytes + 1,
        3 * LineSplitter::kMaxPieceBytes}) {
    for (size_t portion : {size_t{4096}, size_t{65537}, size_t{1} << 20}) {
      lines_.clear();
      const std::string text = "a\n" + std::string(size, 'x') + "\nb\n";
      for (size_t at = 0; at < text.size(); at += portion) {
        Add(text.substr(at, portion));
      }
      EXPECT_EQ(absl::StrJoin(lines_, ""), text) << size << " " << portion;
      EXPECT_EQ(lines_.back(), "b\n");
      EXPECT_THAT(lines_,
                  Each(SizeIs(::testing::Le(LineSplitter::kMaxPieceBytes))));
    }
  }
}

}  // namespace line_splitter_test
}  // namespace tutti
