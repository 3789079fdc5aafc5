#include "tools/base/exit_status.h"

#include "gtest/gtest.h"

namespace tutti {
namespace exit_status_test {

TEST(ExitStatusTest, TellsBadUsageFromAFailedRun) {
  EXPECT_EQ(ExitStatus(absl::OkStatus()), 0);
  EXPECT_EQ(ExitStatus(absl::InvalidArgumentError("a bad file")), 1);
  EXPECT_EQ(ExitStatus(absl::DeadlineExceededError("too late")), 1);
  EXPECT_EQ(ExitStatus(UsageError("--root 9")), 2);
}

TEST(ExitStatusTest, UsageErrorKeepsItsMessage) {
  EXPECT_EQ(UsageError("--root 9").message(), "--root 9");
}

TEST(ErrorLineTest, NamesTheProgram) {
  EXPECT_EQ(ErrorLine(absl::NotFoundError("no such file")),
            "tutti: no such file\n");
}

TEST(ErrorLineTest, StaysOneLineWhateverTheMessageHolds) {
  EXPECT_EQ(ErrorLine(absl::NotFoundError("a\nb\r\x1b[31mc\n")),
            "tutti: a b  [31mc\n");
}

TEST(ExitStatusTest, OtherProgramsHaveTheirOwn) {
  const absl::Status status = ErrorWithExitStatus(137, "it was killed");
  EXPECT_EQ(ExitStatus(status), 137);
  EXPECT_EQ(ErrorLine(status), "tutti: it was killed\n");
  EXPECT_FALSE(IsUsageError(ErrorWithExitStatus(2, "of another program")));
  EXPECT_TRUE(IsUsageError(UsageError("of this one")));
}

}  // namespace exit_status_test
}  // namespace tutti
