#include "tools/commands/launch_command.h"

#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"

namespace tutti {
namespace launch_command_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;

// Replaces the tool by a script, which gets the words
//   worker --cluster ADDRESSES --task I ... -- WORDS
class LaunchTest : public ::testing::Test {
 protected:
  absl::Status Run(const std::string& script, LaunchOptions options) {
    const std::string file = ::testing::TempDir() + "/launched.sh";
    std::ofstream(file) << "#!/bin/sh\n" << script << "\n";
    chmod(file.c_str(), 0700);
    options.grace = absl::InfiniteDuration();
    return Launch(options, file, {out_, err_});
  }

  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(LaunchTest, TasksKnowTheClusterAndTheCommand) {
  EXPECT_THAT(Run("echo \"$#:$*\"; test $5 = 0",
                  {.tasks = 1,
                   .cluster = {{"devices-per-task", "2"}},
                   .words = {"perf", "a b", "[1,2]"}}),
              IsOk());
  EXPECT_THAT(out_.str(),
              MatchesRegex("11:worker --cluster 127\\.0\\.0\\.1:[0-9]+ --task "
                           "0 --devices-per-task 2 -- perf a b \\[1,2\\]\n"));
}

TEST_F(LaunchTest, EachTaskHasItsNumber) {
  EXPECT_THAT(Run("echo task $5", {.tasks = 3, .words = {"perf"}}), IsOk());
  EXPECT_THAT(out_.str(), HasSubstr("task 0\n"));
  EXPECT_THAT(out_.str(), HasSubstr("[1] task 1\n"));
  EXPECT_THAT(out_.str(), HasSubstr("[2] task 2\n"));
  EXPECT_THAT(err_.str(), IsEmpty());
}

TEST_F(LaunchTest, TasksAreStoppedWhenNobodyCanHaveWhatTheyPrint) {
  out_.setstate(std::ios::badbit);
  EXPECT_THAT(Run("echo; exec sleep 1000", {.tasks = 2, .words = {"perf"}}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("written")));
}

TEST_F(LaunchTest, ATokenIsInTheEnvironmentAndInNoArgument) {
  setenv("TUTTI_TOKEN", "old", 1);
  const std::string script =
      "case \"$*\" in *$TUTTI_TOKEN*) exit 1;; esac; echo $TUTTI_TOKEN";
  EXPECT_THAT(Run(script, {.tasks = 1, .words = {"perf"}}), IsOk());
  const std::string first = out_.str();
  EXPECT_THAT(first, MatchesRegex("[0-9a-f]+\n"));
  EXPECT_EQ(first.size(), 33);
  out_.str("");
  EXPECT_THAT(Run(script, {.tasks = 1, .words = {"perf"}}), IsOk());
  EXPECT_NE(out_.str(), first);
}

TEST_F(LaunchTest, OtherClustersOfTheEnvironmentAreNotTheirs) {
  setenv("TUTTI_CLUSTER_FILE", "other.json", 1);
  setenv("TUTTI_BIND", "0.0.0.0", 1);
  setenv("TUTTI_PORT", "1", 1);
  EXPECT_THAT(Run("test -z \"$TUTTI_CLUSTER_FILE$TUTTI_BIND$TUTTI_PORT\"",
                  {.tasks = 1, .words = {"perf"}}),
              IsOk());
}

TEST_F(LaunchTest, TheFirstErrorAndItsStatusAreThoseOfTheWhole) {
  const absl::Status status =
      Run("test $5 = 1 || exec sleep 1000; echo 'tutti: bad input' >&2; exit 3",
          {.tasks = 3, .words = {"perf"}});
  EXPECT_EQ(ExitStatus(status), 3);
  EXPECT_EQ(status.message(), "task 1 failed with exit status 3: bad input");
  EXPECT_EQ(err_.str(), "[1] tutti: bad input\n");
}

TEST_F(LaunchTest, ASilentFailureIsOneToo) {
  const absl::Status status = Run("exit 2", {.tasks = 1, .words = {"perf"}});
  EXPECT_EQ(ExitStatus(status), 2);
  EXPECT_FALSE(IsUsageError(status));
  EXPECT_EQ(status.message(), "task 0 failed with exit status 2");
}

TEST_F(LaunchTest, ASignalThatKilledATaskIsSaidInWords) {
  const absl::Status status =
      Run("kill -KILL $$", {.tasks = 1, .words = {"perf"}});
  EXPECT_EQ(ExitStatus(status), 128 + SIGKILL);
  EXPECT_EQ(status.message(), "task 0 was killed by signal 9 (Killed)");
}

TEST_F(LaunchTest, SignalsGoToAllTasksAndThenEndTheProcess) {
  EXPECT_EXIT((void)Run("test $5 = 0 && kill -TERM $PPID; exec sleep 1000",
                        {.tasks = 3, .words = {"perf"}}),
              ::testing::KilledBySignal(SIGTERM), "");
}

TEST_F(LaunchTest, AProgramThatCannotRunIsNamed) {
  const absl::Status status =
      Launch({.tasks = 2, .words = {"perf"}}, "/nowhere/tutti", {out_, err_});
  EXPECT_EQ(ExitStatus(status), 1);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("cannot run /nowhere/tutti"));
}

}  // namespace launch_command_test
}  // namespace tutti
