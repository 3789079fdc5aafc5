#include "tools/base/console.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <limits>
#include <sstream>

#include "tools/base/available_memory.h"
#include "tools/base/on_interrupt.h"
#include "tools/base/temp_folder_testing.h"
#include "tools/base/text.h"

namespace tutti {
namespace console_test {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

class AvailableMemoryTest : public TempFolderTest {
 protected:
  void WriteMemInfo() {
    Write("proc/meminfo",
          "MemTotal:       16000 kB\nMemFree:          100 kB\n"
          "MemAvailable:    8000 kB\n");
  }

  int64_t Available() const { return AvailableMemory(root_); }
};

TEST_F(AvailableMemoryTest, IsWhatTheKernelSays) {
  WriteMemInfo();
  EXPECT_EQ(Available(), 8000 * 1024);
}

TEST_F(AvailableMemoryTest, NothingToReadIsNoLimit) {
  EXPECT_EQ(Available(), kUnlimited);
  Write("proc/meminfo", "MemAvailable: much kB\n");
  Write("proc/self/cgroup", "nonsense\n0:\n");
  EXPECT_EQ(Available(), kUnlimited);
}

TEST_F(AvailableMemoryTest, AControlGroupMayAllowLess) {
  WriteMemInfo();
  Write("proc/self/cgroup", "0::/user/me\n");
  Write("sys/fs/cgroup/user/me/memory.max", "max\n");
  EXPECT_EQ(Available(), 8000 * 1024);
  Write("sys/fs/cgroup/user/me/memory.max", "5000\n");
  EXPECT_EQ(Available(), 5000);
  Write("sys/fs/cgroup/user/memory.max", "4000\n");
  EXPECT_EQ(Available(), 4000) << "the group above counts too";
}

TEST_F(AvailableMemoryTest, InAContainerTheMountIsTheGroup) {
  WriteMemInfo();
  Write("proc/self/cgroup", "0::/on/the/host\n");
  Write("sys/fs/cgroup/memory.max", "3000\n");
  EXPECT_EQ(Available(), 3000);
}

TEST_F(AvailableMemoryTest, ControlGroupsOfVersionOneCount) {
  WriteMemInfo();
  Write("proc/self/cgroup", "5:cpu:/me\n4:hugetlb,memory:/me\n");
  Write("sys/fs/cgroup/memory/me/memory.limit_in_bytes", "2000\n");
  EXPECT_EQ(Available(), 2000);
  Write("sys/fs/cgroup/memory/me/memory.limit_in_bytes",
        "9223372036854771712\n");
  EXPECT_EQ(Available(), 8000 * 1024);
}

TEST_F(AvailableMemoryTest, ThisMachineHasSome) {
  EXPECT_GT(AvailableMemory(), 0);
  EXPECT_LT(AvailableMemory(), kUnlimited);
}

// Sleeps until a signal ends the process.
void WaitForTheEnd() {
  while (true) pause();
}

TEST(OnInterruptDeathTest, ASignalCleansUpAndThenEndsTheProcessAsEver) {
  for (int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) {
    EXPECT_EXIT(
        {
          const OnInterrupt on_interrupt(
              [] { std::fputs("cleaned up", stderr); });
          raise(number);
          WaitForTheEnd();
        },
        ::testing::KilledBySignal(number), "^cleaned up$");
  }
}

TEST(OnInterruptDeathTest, AfterwardsSignalsAreAsTheyWere) {
  EXPECT_EXIT(
      {
        {
          const OnInterrupt on_interrupt([] { std::fputs("no", stderr); });
        }
        {
          const OnInterrupt on_interrupt([] { std::fputs("no", stderr); });
        }
        raise(SIGTERM);
        WaitForTheEnd();
      },
      ::testing::KilledBySignal(SIGTERM), "^$");
}

TEST(OnInterruptDeathTest, WhatIsIgnoredStaysIgnored) {
  EXPECT_EXIT(
      {
        signal(SIGHUP, SIG_IGN);
        {
          const OnInterrupt on_interrupt([] { std::fputs("no", stderr); });
          raise(SIGHUP);
        }
        raise(SIGHUP);
        _exit(0);
      },
      ::testing::ExitedWithCode(0), "^$");
}

TEST(OnInterruptTest, NothingIsCleanedUpWithoutASignal) {
  bool cleaned_up = false;
  {
    const OnInterrupt on_interrupt([&] { cleaned_up = true; });
  }
  EXPECT_FALSE(cleaned_up);
}

TEST(EndBySignalDeathTest, TheProcessEndsByItThoughItIsIgnoredAndBlocked) {
  EXPECT_EXIT(
      {
        signal(SIGINT, SIG_IGN);
        sigset_t signals;
        sigemptyset(&signals);
        sigaddset(&signals, SIGINT);
        pthread_sigmask(SIG_BLOCK, &signals, nullptr);
        EndBySignal(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

TEST(EndBySignalDeathTest, TheProcessEndsEvenByOneThatEndsNone) {
  EXPECT_EXIT(EndBySignal(SIGCHLD), ::testing::ExitedWithCode(128 + SIGCHLD),
              "");
}

class ProgressTest : public testing::Test {
 protected:
  std::ostringstream out_, err_;
  const Console terminal_{out_, err_, /*err_is_terminal=*/true};
};

TEST_F(ProgressTest, OverwritesItselfAndIsGoneAfterwards) {
  {
    Progress progress(terminal_);
    progress.Show("long text");
    progress.Show("short");
  }
  EXPECT_EQ(err_.str(), "\rlong text\rshort    \r     \r");
  EXPECT_EQ(out_.str(), "");
}

TEST_F(ProgressTest, IsSilentWhereNobodyWatches) {
  const Console console{out_, err_, /*err_is_terminal=*/false};
  {
    Progress progress(console);
    progress.Show("text");
  }
  EXPECT_EQ(err_.str(), "");
}

TEST_F(ProgressTest, WritesNothingIfNothingWasShown) {
  {
    Progress progress(terminal_);
  }
  EXPECT_EQ(err_.str(), "");
}

TEST(TextTableTest, AlignsCellsUnderTheirTitles) {
  TextTable table(
      {{"name", Align::kLeft}, {"p50 [us]"}, {"n", Align::kRight, 4}});
  EXPECT_EQ(table.Header(), "name  p50 [us]     n\n");
  EXPECT_EQ(table.Row({"a", "1.5", "12"}), "a          1.5    12\n");
}

TEST(TextTableTest, FitsTheWidestCell) {
  EXPECT_EQ(FormatTable({{"name", Align::kLeft}, {"n"}},
                        {{"long name", "1"}, {"b", "100"}}),
            "name         n\n"
            "long name    1\n"
            "b          100\n");
}

TEST(TextTableTest, LinesEndWithoutSpaces) {
  TextTable table({{"a"}, {"summary", Align::kLeft}});
  EXPECT_EQ(table.Row({"1", ""}), "1\n");
  EXPECT_EQ(table.Row({"1"}), "1\n");
}

TEST(TextTableTest, CellsThatAreTooWideAreNotCut) {
  TextTable table({{"a"}, {"b"}});
  EXPECT_EQ(table.Row({"wide", "2"}), "wide  2\n");
}

}  // namespace console_test
}  // namespace tutti
