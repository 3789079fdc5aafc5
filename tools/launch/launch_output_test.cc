#include "tools/launch/launch_output.h"

#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace tutti {
namespace launch_output_test {

using Stream = ProcessGroup::Stream;

class LaunchOutputTest : public ::testing::Test {
 protected:
  std::ostringstream out_;
  std::ostringstream err_;
  LaunchOutput output_{{out_, err_}, /*num_tasks=*/3};
};

TEST_F(LaunchOutputTest, TheResultOfTaskZeroPassesUnchanged) {
  output_.Add(0, Stream::kOut, "one\n");
  output_.Add(0, Stream::kOut, "two");
  output_.Finish();
  EXPECT_EQ(out_.str(), "one\ntwo");
}

TEST_F(LaunchOutputTest, OtherLinesBeginWithTheirTask) {
  output_.Add(0, Stream::kErr, "note\n");
  output_.Add(2, Stream::kOut, "two\n");
  output_.Add(1, Stream::kErr, "\n");
  EXPECT_EQ(err_.str(), "[0] note\n[1] \n");
  EXPECT_EQ(out_.str(), "[2] two\n");
}

TEST_F(LaunchOutputTest, OneTaskSaysForWhomAllWait) {
  const std::string note = "tutti: task 1 (a:1) waits for task 0 (a:0)\n";
  output_.Add(1, Stream::kErr, note);
  output_.Add(2, Stream::kErr, "tutti: task 2 (a:2) waits for task 0 (a:0)\n");
  output_.Add(2, Stream::kErr, "tutti: task 2 (a:2) failed\n");
  output_.Add(1, Stream::kErr, note);
  EXPECT_EQ(err_.str(),
            "[1] " + note + "[2] tutti: task 2 (a:2) failed\n[1] " + note);
}

TEST_F(LaunchOutputTest, PiecesOfALineHaveOneBeginning) {
  output_.Add(1, Stream::kErr, "a");
  output_.Add(1, Stream::kErr, "b\n");
  EXPECT_EQ(err_.str(), "[1] ab\n");
}

TEST_F(LaunchOutputTest, NobodyWritesIntoTheLineOfAnother) {
  output_.Add(1, Stream::kErr, "a");
  output_.Add(2, Stream::kErr, "b");
  output_.Add(0, Stream::kOut, "c");
  output_.Finish();
  output_.Finish();
  EXPECT_EQ(err_.str(), "[1] a\n[2] b\n");
  EXPECT_EQ(out_.str(), "c");
}

TEST_F(LaunchOutputTest, TheLastErrorInTheWordsOfTheToolIsTheReason) {
  output_.Add(1, Stream::kErr, "tutti: waiting for task 2\n");
  output_.Add(1, Stream::kErr, "tutti: task 2 is gone\n");
  output_.Add(1, Stream::kErr, "tutti: note: this is none\n");
  output_.Add(1, Stream::kErr, "nor is this\n");
  output_.Add(2, Stream::kErr, "tutti: another\n");
  EXPECT_EQ(output_.ErrorOf(1), "task 2 is gone");
}

TEST_F(LaunchOutputTest, WithoutOneTheLastLineIs) {
  EXPECT_EQ(output_.ErrorOf(1), "");
  output_.Add(1, Stream::kErr, "terminate called\n");
  output_.Add(1, Stream::kErr, "  what(): bad\n");
  output_.Add(1, Stream::kErr, "\n");
  output_.Add(1, Stream::kOut, "no error\n");
  EXPECT_EQ(output_.ErrorOf(1), "what(): bad");
}

TEST_F(LaunchOutputTest, HugeErrorsAreCut) {
  output_.Add(1, Stream::kErr, std::string(60000, 'x'));
  EXPECT_EQ(output_.ErrorOf(1).size(), 4096);
}

}  // namespace launch_output_test
}  // namespace tutti
