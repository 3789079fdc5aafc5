#include "tools/launch/process_group.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tools/launch/output_queue.h"

namespace tutti {
namespace process_group_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using Stream = ProcessGroup::Stream;

Program Sh(std::string script) {
  return {.words = {"/bin/sh", "-c", std::move(script)}};
}

MATCHER_P(Exited, status, "") {
  *result_listener << "wait status " << arg;
  return WIFEXITED(arg) && WEXITSTATUS(arg) == status;
}

MATCHER_P(KilledBy, signal, "") {
  *result_listener << "wait status " << arg;
  return WIFSIGNALED(arg) && WTERMSIG(arg) == signal;
}

// Makes orphaned descendants children of this process, so that a test can wait
// for their end.
class Subreaper {
 public:
  Subreaper() { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~Subreaper() { prctl(PR_SET_CHILD_SUBREAPER, 0); }
};

class ProcessGroupTest : public ::testing::Test {
 protected:
  // Scripts read lines from the FIFO, which others write.
  static std::string MakeFifo(const std::string& name) {
    std::string path = absl::StrCat(::testing::TempDir(), "/", name, getpid());
    unlink(path.c_str());
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0) << errno;
    return path;
  }

  void Start(const std::vector<Program>& programs,
             absl::Duration grace = absl::InfiniteDuration()) {
    group_.reset();  // Only one object may exist at a time.
    auto group = ProcessGroup::Start(
        programs, {.grace = grace,
                   .on_output = [this](int index, Stream stream,
                                       absl::string_view piece) {
                     auto& output = stream == Stream::kOut ? out_ : err_;
                     absl::StrAppend(&output[index], piece);
                     if (on_output_) on_output_(index, piece);
                   }});
    ASSERT_THAT(group, IsOk());
    group_ = *std::move(group);
  }

  ProcessGroup::Result Run(const std::vector<Program>& programs,
                           absl::Duration grace = absl::InfiniteDuration()) {
    Start(programs, grace);
    ProcessGroup::Result result = group_->Wait();
    for (pid_t pid : group_->pids()) {
      EXPECT_EQ(waitpid(pid, nullptr, WNOHANG), -1) << "a zombie was left";
    }
    return result;
  }

  std::unique_ptr<ProcessGroup> group_;
  std::map<int, std::string> out_;
  std::map<int, std::string> err_;
  std::function<void(int index, absl::string_view piece)> on_output_;
};

TEST_F(ProcessGroupTest, ResultsHaveTheStatusOfEach) {
  const auto result = Run({Sh("exit 0"), Sh("exit 0")});
  EXPECT_THAT(result.wait_statuses, ElementsAre(Exited(0), Exited(0)));
  EXPECT_EQ(result.first_failed, std::nullopt);
  EXPECT_EQ(result.signal, std::nullopt);
}

TEST_F(ProcessGroupTest, ProgramsSeeTheirWordsAndTheirEnvironment) {
  setenv("TUTTI_TEST_KEPT", "kept", 1);
  setenv("TUTTI_TEST", "ours", 1);
  setenv("TUTTI_TEST_2", "also kept", 1);
  Run({{.words = {"/bin/sh", "-c",
                  "echo \"$0|$1|$TUTTI_TEST|$TUTTI_TEST_KEPT|$TUTTI_TEST_2\"; "
                  "env | grep -c ^TUTTI_TEST=",
                  "a b", ""},
        .environment = {"TUTTI_TEST=theirs"}}});
  EXPECT_EQ(out_[0], "a b||theirs|kept|also kept\n1\n");
}

TEST_F(ProcessGroupTest, ProgramsHaveNothingOnTheirInput) {
  EXPECT_THAT(Run({Sh("cat")}).wait_statuses, ElementsAre(Exited(0)));
}

TEST_F(ProcessGroupTest, ProgramsBeginWithNoSignalBlocked) {
  Run({Sh("grep SigBlk /proc/self/status")});
  EXPECT_EQ(out_[0], "SigBlk:\t0000000000000000\n");
}

TEST_F(ProcessGroupTest, AProcessThatStandsStillIsStoppedWithoutGrace) {
  const std::string fifo = MakeFifo("stands_still");
  const auto result = Run(
      {Sh(absl::StrCat("echo $$ > ", fifo, "; kill -STOP $$")),
       Sh(absl::StrCat("read pid < ", fifo,
                       "; until grep -q '^State:.T' /proc/$pid/status; do :; "
                       "done; exit 1"))});
  EXPECT_THAT(result.wait_statuses, ElementsAre(KilledBy(SIGTERM), Exited(1)));
}

TEST_F(ProcessGroupTest, OutputIsTakenApartByProcessAndStream) {
  Run({Sh("echo zero; echo bad >&2"), Sh("echo one")});
  EXPECT_THAT(out_, ElementsAre(std::pair(0, "zero\n"), std::pair(1, "one\n")));
  EXPECT_THAT(err_, ElementsAre(std::pair(0, "bad\n")));
}

TEST_F(ProcessGroupTest, OutputMayEndWithoutANewline) {
  Run({Sh("printf 'one\\ntwo'")});
  EXPECT_EQ(out_[0], "one\ntwo");
}

TEST_F(ProcessGroupTest, LinesMayBeHuge) {
  Run({Sh("head -c 5000000 /dev/zero | tr '\\0' x; echo; echo end")});
  EXPECT_EQ(out_[0].size(), 5000000 + 5);
  EXPECT_THAT(out_[0], ::testing::EndsWith("x\nend\n"));
}

TEST_F(ProcessGroupTest, AProgramMayCloseItsOutputAndGoOn) {
  const auto result = Run({Sh("echo out; exec >&-; echo err >&2; exit 4")});
  EXPECT_EQ(out_[0], "out\n");
  EXPECT_EQ(err_[0], "err\n");
  EXPECT_THAT(result.wait_statuses, ElementsAre(Exited(4)));
}

TEST_F(ProcessGroupTest, WhatIsWrittenBeforeTheEndIsReadWhoeverIsFaster) {
  const std::string go = MakeFifo("go");
  const std::string wrote = MakeFifo("wrote");
  const std::string end = MakeFifo("end");
  const auto wait_for_end = [this](int index) {
    siginfo_t info = {};
    waitid(P_PID, group_->pids()[index], &info, WEXITED | WNOWAIT);
  };
  on_output_ = [&](int index, absl::string_view) {
    if (index == 1) {
      // The group sees the end of process 1 and the first line of process 0
      // together.
      std::ofstream(go) << "\n" << std::flush;
      std::ifstream(wrote).get();
      std::ofstream(end) << "\n" << std::flush;
      wait_for_end(1);
    } else if (out_[0] == "first\n") {
      // Process 0 ends too, before the group handles the end of process 1.
      std::ofstream(go) << "\n" << std::flush;
      wait_for_end(0);
    }
  };
  Run({Sh(absl::StrCat("read line < ", go, "; echo first; echo > ", wrote,
                       "; read line < ", go, "; echo last")),
       Sh(absl::StrCat("echo started; read line < ", end))});
  EXPECT_EQ(out_[0], "first\nlast\n");
}

TEST_F(ProcessGroupTest, TheFailureOfOneStopsAll) {
  const std::string fifo = MakeFifo("stop");
  const auto result =
      Run({Sh(absl::StrCat("echo > ", fifo, "; exec sleep 1000")),
           Sh(absl::StrCat("read line < ", fifo, "; exit 3")),
           Sh("exec sleep 1000")});
  EXPECT_THAT(result.wait_statuses,
              ElementsAre(KilledBy(SIGTERM), Exited(3), KilledBy(SIGTERM)));
  EXPECT_THAT(result.first_failed, Optional(1));
  EXPECT_EQ(result.signal, std::nullopt);
}

TEST_F(ProcessGroupTest, AProgramKilledByASignalHasFailed) {
  const auto result = Run({Sh("exec sleep 1000"), Sh("kill -KILL $$")});
  EXPECT_THAT(result.wait_statuses,
              ElementsAre(KilledBy(SIGTERM), KilledBy(SIGKILL)));
  EXPECT_THAT(result.first_failed, Optional(1));
}

TEST_F(ProcessGroupTest, SuccessOfOneStopsNobody) {
  const std::string fifo = MakeFifo("success");
  // `cat` ends after the other process has ended.
  const auto result = Run({Sh(absl::StrCat("exec 3> ", fifo, "; exit 0")),
                           Sh(absl::StrCat("cat ", fifo, "; echo last"))});
  EXPECT_THAT(result.wait_statuses, ElementsAre(Exited(0), Exited(0)));
  EXPECT_EQ(out_[1], "last\n");
}

TEST_F(ProcessGroupTest, WhoIgnoresSigtermIsKilledAfterTheGracePeriod) {
  for (absl::Duration grace : {absl::ZeroDuration(), absl::Milliseconds(1)}) {
    const std::string fifo = MakeFifo("ignore");
    const auto result = Run(
        {Sh(absl::StrCat("trap '' TERM; echo > ", fifo, "; exec sleep 1000")),
         Sh(absl::StrCat("read line < ", fifo, "; exit 3"))},
        grace);
    EXPECT_THAT(result.wait_statuses,
                ElementsAre(KilledBy(SIGKILL), Exited(3)));
    EXPECT_THAT(result.first_failed, Optional(1));
  }
}

TEST_F(ProcessGroupTest, WhoEndsInTheGracePeriodIsNotKilled) {
  const std::string fifo = MakeFifo("grace");
  const auto result =
      Run({Sh(absl::StrCat("trap 'echo bye; exit 5' TERM; echo > ", fifo,
                           "; while :; do sleep 0.01; done")),
           Sh(absl::StrCat("read line < ", fifo, "; exit 3"))});
  EXPECT_THAT(result.wait_statuses, ElementsAre(Exited(5), Exited(3)));
  EXPECT_EQ(out_[0], "bye\n");
  EXPECT_THAT(result.first_failed, Optional(1));
}

TEST_F(ProcessGroupTest, SignalsAreForwarded) {
  for (int signal : {SIGHUP, SIGINT, SIGTERM}) {
    on_output_ = [&](int, absl::string_view) { kill(getpid(), signal); };
    const auto result =
        Run({Sh("echo ready; exec sleep 1000"), Sh("exec sleep 1000")});
    EXPECT_THAT(result.wait_statuses,
                ElementsAre(KilledBy(signal), KilledBy(signal)));
    EXPECT_THAT(result.signal, Optional(signal));
    EXPECT_EQ(result.first_failed, std::nullopt);
  }
}

TEST_F(ProcessGroupTest, WhoIgnoresAForwardedSignalIsKilled) {
  on_output_ = [&](int, absl::string_view) { kill(getpid(), SIGINT); };
  const auto result = Run({Sh("trap '' INT; echo ready; exec sleep 1000")},
                          absl::Milliseconds(1));
  EXPECT_THAT(result.wait_statuses, ElementsAre(KilledBy(SIGKILL)));
  EXPECT_THAT(result.signal, Optional(SIGINT));
}

TEST_F(ProcessGroupTest, SignalsThatWeIgnoreAreNotForwarded) {
  signal(SIGHUP, SIG_IGN);
  on_output_ = [&](int, absl::string_view) { kill(getpid(), SIGHUP); };
  const auto result = Run({Sh("echo ready; exit 0")});
  signal(SIGHUP, SIG_DFL);
  EXPECT_EQ(result.signal, std::nullopt);
  EXPECT_THAT(result.wait_statuses, ElementsAre(Exited(0)));
}

TEST_F(ProcessGroupTest, ChildrenOfAnEndedProgramAreKilled) {
  const Subreaper subreaper;
  Run({Sh("sleep 1000 & echo $!")});
  pid_t grandchild = 0;
  ASSERT_TRUE(absl::SimpleAtoi(out_[0], &grandchild));
  int wait_status = 0;
  ASSERT_EQ(waitpid(grandchild, &wait_status, 0), grandchild);
  EXPECT_THAT(wait_status, KilledBy(SIGKILL));
}

TEST_F(ProcessGroupTest, WhoHoldsTheOutputOpenElsewhereDelaysNothing) {
  const Subreaper subreaper;
  // The outer shell ends once the inner shell is in its own session.
  const std::string fifo = MakeFifo("elsewhere");
  Run({Sh(absl::StrCat("setsid sh -c 'echo $$ > ", fifo,
                       "; exec sleep 1000' & read pid < ", fifo,
                       "; echo $pid"))});
  pid_t elsewhere = 0;
  ASSERT_TRUE(absl::SimpleAtoi(out_[0], &elsewhere));
  EXPECT_EQ(kill(elsewhere, SIGKILL), 0);
  EXPECT_EQ(waitpid(elsewhere, nullptr, 0), elsewhere);
}

TEST_F(ProcessGroupTest, AReaderThatDoesNotReadHoldsNothingUp) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  OutputQueue queue(ends[1]);
  std::ostream stream(&queue);
  stream << std::string(OutputQueue::kFullBytes, 'x') << "the rest";
  group_.reset();
  auto group =
      ProcessGroup::Start({Sh("exit 3"), Sh("trap '' TERM; exec sleep 1000")},
                          {.grace = absl::Milliseconds(1),
                           .on_output = [](int, Stream, absl::string_view) {},
                           .queues = {&queue}});
  ASSERT_THAT(group, IsOk());
  EXPECT_THAT((*group)->Wait().first_failed, Optional(0));
  EXPECT_TRUE(queue.failed());
  close(ends[0]);
  close(ends[1]);
}

TEST_F(ProcessGroupTest, NeitherDoesOneOfTwoStreamsThatAreOnePipe) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  const int other = dup(ends[1]);
  const std::string page(4096, 'x');
  while (write(ends[1], page.data(), page.size()) > 0) {
  }
  std::string taken(page);  // Makes room for one page.
  ASSERT_EQ(read(ends[0], taken.data(), taken.size()), 4096);
  fcntl(ends[1], F_SETFL, 0);
  OutputQueue out(ends[1]), err(other);
  std::ostream(&out) << page << page;
  std::ostream(&err) << page << page;
  group_.reset();
  auto group =
      ProcessGroup::Start({Sh("exit 3"), Sh("trap '' TERM; exec sleep 1000")},
                          {.grace = absl::Milliseconds(1),
                           .on_output = [](int, Stream, absl::string_view) {},
                           .queues = {&out, &err}});
  ASSERT_THAT(group, IsOk());
  EXPECT_THAT((*group)->Wait().first_failed, Optional(0));
  EXPECT_TRUE(out.failed());
  EXPECT_TRUE(err.failed());
  for (int end : {ends[0], ends[1], other}) close(end);
}

TEST_F(ProcessGroupTest, TheDestructorKillsWhatStillRuns) {
  Start({Sh("exec sleep 1000"), Sh("trap '' TERM; exec sleep 1000")});
  const std::vector<pid_t> pids = group_->pids();
  group_.reset();
  for (pid_t pid : pids) {
    EXPECT_EQ(kill(pid, 0), -1);
    EXPECT_EQ(errno, ESRCH);
  }
}

TEST_F(ProcessGroupTest, NobodySurvivesThisProcess) {
  const Subreaper subreaper;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t launcher = fork();
  if (launcher == 0) {
    on_output_ = [&](int, absl::string_view piece) {
      if (write(ends[1], piece.data(), piece.size()) < 0) _exit(1);
    };
    Start({Sh("trap '' TERM HUP INT; echo $$; exec sleep 1000")});
    group_->Wait();
    _exit(0);
  }
  char text[32] = {};
  ASSERT_GT(read(ends[0], text, sizeof(text) - 1), 0);
  close(ends[0]);
  close(ends[1]);
  kill(launcher, SIGKILL);
  EXPECT_EQ(waitpid(launcher, nullptr, 0), launcher);
  pid_t child = 0;
  ASSERT_TRUE(absl::SimpleAtoi(text, &child));
  int wait_status = 0;
  ASSERT_EQ(waitpid(child, &wait_status, 0), child);
  EXPECT_THAT(wait_status, KilledBy(SIGKILL));
}

TEST_F(ProcessGroupTest, WhatCannotRunIsNamedAndNothingElseRuns) {
  const auto group = ProcessGroup::Start(
      {Sh("exec sleep 1000"), {.words = {"/nowhere/program"}}},
      {.on_output = [](int, Stream, absl::string_view) {}});
  EXPECT_THAT(group, StatusIs(absl::StatusCode::kNotFound,
                              HasSubstr("cannot run /nowhere/program")));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(ProcessGroupTest, AfterwardsSignalsAreAsTheyWere) {
  sigset_t before, after;
  sigprocmask(SIG_SETMASK, nullptr, &before);
  Run({Sh("exit 0")});
  group_.reset();
  sigprocmask(SIG_SETMASK, nullptr, &after);
  for (int signal : {SIGCHLD, SIGHUP, SIGINT, SIGTERM}) {
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal));
  }
}

TEST_F(ProcessGroupTest, ChildrenEndEvenWhereTheirEndWasIgnored) {
  signal(SIGCHLD, SIG_IGN);
  EXPECT_THAT(Run({Sh("exit 6")}).wait_statuses, ElementsAre(Exited(6)));
}

}  // namespace process_group_test
}  // namespace tutti
