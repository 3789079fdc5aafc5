#include "tools/base/end_by_signal.h"

#include <csignal>

#include "gtest/gtest.h"

namespace tutti {
namespace end_by_signal_test {

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

}  // namespace end_by_signal_test
}  // namespace tutti
