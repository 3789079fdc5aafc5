#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "grpc/support/log.h"
#include "openssl/evp.h"
#include "openssl/pem.h"
#include "openssl/x509.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exits_with_testing.h"
#include "tools/launch/grpc_preparation.h"
#include "tools/launch/launch_output.h"
#include "tools/launch/process_group.h"
#include "tools/launch/slurm.h"

namespace tutti {
namespace launch_test {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::SizeIs;

const absl::Time kExpiry = absl::FromCivil(
    absl::CivilSecond(2020, 1, 2, 3, 4, 5), absl::UTCTimeZone());

std::string PathOf(const std::string& name) {
  return ::testing::TempDir() + "/" + name;
}

// Writes a certificate that expires at kExpiry.
std::string WriteCertificate() {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      EVP_EC_gen("P-256"), &EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(),
                                                                &X509_free);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
  ASN1_TIME_set(X509_getm_notAfter(certificate.get()), absl::ToTimeT(kExpiry));
  X509_set_pubkey(certificate.get(), key.get());
  EXPECT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
  std::string path = PathOf("certificate.pem");
  FILE* const file = fopen(path.c_str(), "w");
  EXPECT_EQ(PEM_write_X509(file, certificate.get()), 1);
  fclose(file);
  return path;
}

TEST(CertificateExpiryTest, AnExpiredCertificateIsNamedWithItsEnd) {
  const std::string path = WriteCertificate();
  EXPECT_THAT(CheckNotExpired(path, kExpiry), IsOk());
  EXPECT_THAT(
      CheckNotExpired(path, kExpiry + absl::Seconds(1)),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               EndsWith("certificate.pem expired on 2020-01-02 03:04:05 UTC")));
}

TEST(CertificateExpiryTest, WhatIsNoCertificateIsForOthersToRefuse) {
  const std::string path = PathOf("none.pem");
  std::ofstream(path) << "no certificate\n";
  EXPECT_THAT(CheckNotExpired(path, kExpiry), IsOk());
  EXPECT_THAT(CheckNotExpired(PathOf("missing.pem"), kExpiry), IsOk());
}

class WaitingNoteTest : public testing::Test {
 protected:
  SimulatedEnvironment environment_{1};
  std::ostringstream out_, err_;
  const Console console_{out_, err_};
  const std::shared_ptr<WaitingNote> note_ = WaitingNote::Create(
      {.addresses = {"a:1", "b:2", "c:3"}, .this_task = 1}, absl::Seconds(60),
      environment_.get().clock, console_);
};

TEST_F(WaitingNoteTest, SaysForWhomItWaits) {
  note_->SetMissing({0, 2});
  environment_.Advance(absl::Seconds(3));
  EXPECT_EQ(err_.str(),
            "tutti: task 1 (b:2) waits for task 0 (a:1), task 2 (c:3); "
            "--start-timeout is 60 s\n");
  note_->SetMissing({2});
  environment_.Advance(absl::Seconds(10));
  EXPECT_EQ(err_.str(),
            "tutti: task 1 (b:2) waits for task 0 (a:1), task 2 (c:3); "
            "--start-timeout is 60 s\n"
            "tutti: task 1 (b:2) waits for task 2 (c:3); "
            "--start-timeout is 60 s\n");
}

TEST_F(WaitingNoteTest, ItsLinesCanBeTold) {
  note_->SetMissing({0});
  environment_.Advance(absl::Seconds(3));
  EXPECT_TRUE(IsWaitingNote(err_.str()));
  EXPECT_FALSE(IsWaitingNote("tutti: task 1 (b:2) failed"));
  EXPECT_FALSE(IsWaitingNote("he waits for nobody"));
}

TEST_F(WaitingNoteTest, SaysNothingIfAllComeSoon) {
  note_->SetMissing({0});
  environment_.Advance(absl::Seconds(1));
  note_->SetMissing({});
  environment_.Advance(absl::Seconds(60));
  EXPECT_EQ(err_.str(), "");
}

TEST_F(WaitingNoteTest, SaysNothingOnceItHasEnded) {
  note_->SetMissing({0});
  environment_.Advance(absl::Seconds(3));
  const std::string said = err_.str();
  note_->End();
  environment_.Advance(absl::Seconds(60));
  EXPECT_EQ(err_.str(), said);
}

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

class OutputQueueTest : public ::testing::Test {
 protected:
  OutputQueueTest() {
    std::signal(SIGPIPE, SIG_IGN);
    EXPECT_EQ(pipe(ends_), 0);
  }
  ~OutputQueueTest() override {
    for (int end : ends_) close(end);
  }

  std::string Read() const {
    std::string text(1 << 20, ' ');
    const ssize_t size = read(ends_[0], text.data(), text.size());
    text.resize(size < 0 ? 0 : static_cast<size_t>(size));
    return text;
  }

  int ends_[2];
};

TEST_F(OutputQueueTest, WhatAStreamTakesIsWrittenInOrder) {
  OutputQueue queue(ends_[1]);
  std::ostream stream(&queue);
  stream << "one " << 2 << '\n' << std::flush;
  EXPECT_TRUE(stream.good());
  EXPECT_FALSE(queue.is_empty());
  queue.WriteAll();
  EXPECT_TRUE(queue.is_empty());
  EXPECT_EQ(Read(), "one 2\n");
}

TEST_F(OutputQueueTest, ItIsFullUntilThereIsRoom) {
  OutputQueue queue(ends_[1]);
  std::ostream stream(&queue);
  stream << std::string(OutputQueue::kFullBytes, 'x');
  EXPECT_TRUE(queue.is_full());
  queue.WriteSome();
  EXPECT_FALSE(queue.is_full());
  EXPECT_EQ(Read(), std::string(4096, 'x'));
}

TEST_F(OutputQueueTest, AfterAFailedWriteNothingIsTaken) {
  OutputQueue queue(-1);
  std::ostream stream(&queue);
  stream << "lost";
  queue.WriteSome();
  EXPECT_TRUE(queue.failed());
  EXPECT_TRUE(queue.is_empty());
  stream << "more";
  EXPECT_FALSE(stream.good());
}

TEST(OwnAddressTest, AddressesOfThisMachine) {
  EXPECT_FALSE(IsAddressOfAnotherMachine("127.0.0.1"));
  EXPECT_FALSE(IsAddressOfAnotherMachine("0.0.0.0"));
}

TEST(OwnAddressTest, AddressesOfOthers) {
  // Reserved for documents.
  EXPECT_TRUE(IsAddressOfAnotherMachine("192.0.2.1"));
}

TEST(OwnAddressTest, NamesMayBeOfThisMachine) {
  EXPECT_FALSE(IsAddressOfAnotherMachine("host1"));
  EXPECT_FALSE(IsAddressOfAnotherMachine(""));
}

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

TEST_F(ProcessGroupTest, ProgramsInheritTheirDescriptorsAlone) {
  const FileDescriptor first(open("/dev/zero", O_RDONLY | O_CLOEXEC));
  const FileDescriptor second(open("/dev/full", O_RDONLY | O_CLOEXEC));
  Program program = Sh("readlink /proc/$$/fd/* | grep -E 'zero|full'");
  program.descriptors = {second.get()};
  Run({program});
  EXPECT_EQ(out_[0], "/dev/full\n");
  EXPECT_EQ(fcntl(second.get(), F_GETFD), FD_CLOEXEC);
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

std::string PrintedByGrpc() {
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);  // The default of gRPC.
  testing::internal::CaptureStderr();
  gpr_log(GPR_ERROR, "a line of gRPC");
  return testing::internal::GetCapturedStderr();
}

TEST(QuietGrpcTest, WhoeverAsksForLinesGetsThem) {
  SilenceGrpc([](const std::string& name) -> std::optional<std::string> {
    if (name == "GRPC_VERBOSITY") return "ERROR";
    return std::nullopt;
  });
  EXPECT_NE(PrintedByGrpc(), "");
  SilenceGrpc([](const std::string&) { return std::nullopt; });
  EXPECT_EQ(PrintedByGrpc(), "");
}

Variables Of(std::map<std::string, std::string> values) {
  return [values](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

std::map<std::string, std::string> Step() {
  return {{"SLURM_STEP_NODELIST", "node[01-02],gpu5"},
          {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
          {"SLURM_NTASKS", "5"}};
}

TEST(SlurmTest, HostListsExpandTheirBrackets) {
  EXPECT_THAT(*ExpandHostList("node[01-03,7],gpu5"),
              ElementsAre("node01", "node02", "node03", "node7", "gpu5"));
  EXPECT_THAT(*ExpandHostList("login"), ElementsAre("login"));
  EXPECT_THAT(*ExpandHostList("n[8-11].local"),
              ElementsAre("n8.local", "n9.local", "n10.local", "n11.local"));
  EXPECT_THAT(*ExpandHostList("r[0-1]n[1-2]"),
              ElementsAre("r0n1", "r0n2", "r1n1", "r1n2"));
  EXPECT_THAT(*ExpandHostList("n[098-101]"),
              ElementsAre("n098", "n099", "n100", "n101"));
}

TEST(SlurmTest, WhatIsNoHostListIsQuoted) {
  for (const std::string list : {"",
                                 ",",
                                 "a,",
                                 ",a",
                                 "a[",
                                 "a]",
                                 "a[]",
                                 "a[1",
                                 "a[1-]",
                                 "a[-1]",
                                 "a[2-1]",
                                 "a[1-2-3]",
                                 "a[x]",
                                 "a[1,]",
                                 "a[1]]",
                                 "a[[1]]",
                                 "a[ 1]",
                                 "a[1-9999999999]",
                                 "a[0-65536]",
                                 "a[0-999]b[0-99]",
                                 "a[0-65535],b"}) {
    EXPECT_THAT(ExpandHostList(list),
                ExitsWith(2, "\"" + list +
                                 "\" is no list of up to 65536 hosts such as "
                                 "node[01-03,7],gpu5"));
  }
}

TEST(SlurmTest, HostListsMayBeLong) {
  EXPECT_THAT(*ExpandHostList("a[0-65535]"), SizeIs(65536));
}

TEST(SlurmTest, TasksPerNodeExpand) {
  EXPECT_THAT(*ExpandTasksPerNode("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(*ExpandTasksPerNode("16"), ElementsAre(16));
}

TEST(SlurmTest, WhatIsNoNumberOfTasksIsQuoted) {
  for (const std::string list :
       {"", "x", "0", "-1", "1,", "2(x)", "2(x0)", "2(x3", "2(x3)1", "2x3",
        "(x3)", "2(x-1)", "2(x65537)", "1(x65536),1", "9999999999"}) {
    EXPECT_THAT(
        ExpandTasksPerNode(list),
        ExitsWith(2, "\"" + list +
                         "\" is no list of up to 65536 numbers of tasks "
                         "such as 2(x3),1"));
  }
}

TEST(SlurmTest, TasksFillOneNodeAfterTheOther) {
  EXPECT_THAT(*SlurmAddresses(Of(Step()), 7000),
              ElementsAre("node01:7000", "node01:7001", "node02:7000",
                          "node02:7001", "gpu5:7000"));
}

TEST(SlurmTest, AJobWithoutAStepHasVariablesToo) {
  EXPECT_THAT(
      *SlurmAddresses(
          Of({{"SLURM_JOB_NODELIST", "a"}, {"SLURM_TASKS_PER_NODE", "2"}}), 1),
      ElementsAre("a:1", "a:2"));
}

TEST(SlurmTest, MissingVariablesAreNamed) {
  for (const char* name :
       {"SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE"}) {
    auto step = Step();
    step.erase(name);
    EXPECT_THAT(SlurmAddresses(Of(step), 7000),
                ExitsWith(2, HasSubstr(std::string("wanted ") + name + " or")));
  }
}

TEST(SlurmTest, WrongVariablesAreNamed) {
  auto step = Step();
  step["SLURM_STEP_NODELIST"] = "a[";
  EXPECT_THAT(SlurmAddresses(Of(step), 7000),
              ExitsWith(2, HasSubstr("SLURM_STEP_NODELIST: \"a[\" is no")));
  step = Step();
  step["SLURM_STEP_TASKS_PER_NODE"] = "x";
  EXPECT_THAT(SlurmAddresses(Of(step), 7000),
              ExitsWith(2, HasSubstr("SLURM_STEP_TASKS_PER_NODE: \"x\" is")));
}

TEST(SlurmTest, VariablesThatContradictEachOtherAreQuoted) {
  auto step = Step();
  step["SLURM_STEP_TASKS_PER_NODE"] = "2(x2)";
  EXPECT_THAT(
      SlurmAddresses(Of(step), 7000),
      ExitsWith(2,
                "SLURM_STEP_NODELIST, \"node[01-02],gpu5\", has 3 nodes, "
                "but SLURM_STEP_TASKS_PER_NODE, \"2(x2)\", has 2"));
  step = Step();
  step["SLURM_NTASKS"] = "4";
  EXPECT_THAT(SlurmAddresses(Of(step), 7000),
              ExitsWith(2,
                        "SLURM_STEP_TASKS_PER_NODE: \"2(x2),1\" makes 5 "
                        "tasks, but SLURM_NTASKS is 4: start the tasks "
                        "with srun"));
}

TEST(SlurmTest, TooManyTasksAreRefused) {
  auto step = Step();
  step["SLURM_STEP_TASKS_PER_NODE"] = "999999999(x3)";
  EXPECT_THAT(SlurmAddresses(Of(step), 7000),
              ExitsWith(2, HasSubstr("makes 2999999997 tasks, more than")));
}

TEST(SlurmTest, OtherOrdersOfTasksAreRefused) {
  auto step = Step();
  step["SLURM_DISTRIBUTION"] = "block:cyclic";
  EXPECT_THAT(SlurmAddresses(Of(step), 7000), IsOk());
  step["SLURM_DISTRIBUTION"] = "cyclic";
  EXPECT_THAT(SlurmAddresses(Of(step), 7000),
              ExitsWith(2, HasSubstr("SLURM_DISTRIBUTION is \"cyclic\"")));
}

TEST(SlurmTest, PortsMustExist) {
  EXPECT_THAT(SlurmAddresses(Of(Step()), 65534), IsOk());
  EXPECT_THAT(SlurmAddresses(Of(Step()), 65535),
              ExitsWith(2, HasSubstr("port 65535 is too high: the 2 tasks of a "
                                     "node would need those up to 65536")));
}

}  // namespace launch_test
}  // namespace tutti
