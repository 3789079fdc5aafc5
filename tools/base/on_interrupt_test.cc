#include "tools/base/on_interrupt.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "gtest/gtest.h"

namespace tutti {
namespace on_interrupt_test {

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

}  // namespace on_interrupt_test
}  // namespace tutti
