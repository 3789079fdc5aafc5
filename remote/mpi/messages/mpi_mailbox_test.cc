#include "remote/mpi/messages/mpi_mailbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "remote/mpi/messages/doorbell.h"
#include "tutti/environment.h"

namespace tutti {
namespace mpi_mailbox_test {

using testing::ElementsAre;

TEST(MpiMailboxTest, WorkIsTakenInTheOrderOfPosts) {
  MpiMailbox mailbox;
  std::vector<int> ran;
  for (const int i : {1, 2, 3}) mailbox.Post([&ran, i] { ran.push_back(i); });
  EXPECT_THAT(ran, ElementsAre());
  EXPECT_FALSE(mailbox.empty());
  for (Work& work : mailbox.TakeAll()) std::move(work)();
  EXPECT_THAT(ran, ElementsAre(1, 2, 3));
  EXPECT_TRUE(mailbox.empty());
}

// Sleeper that misses the ring would sleep for an hour.
TEST(MpiMailboxTest, APostWakesWhoSleeps) {
  MpiMailbox mailbox;
  Doorbell doorbell;
  mailbox.RingAt(&doorbell);
  doorbell.PrepareToSleep();
  mailbox.Post([] {});
  doorbell.SleepUnlessRung(absl::Hours(1));
  doorbell.PrepareToSleep();
  mailbox.Ring();
  doorbell.SleepUnlessRung(absl::Hours(1));
}

TEST(MpiMailboxTest, OneThatHoldsWorkIsNotClosed) {
  MpiMailbox mailbox;
  mailbox.Post([] {});
  EXPECT_FALSE(mailbox.CloseIfEmpty());
  bool has_run = false;
  mailbox.Post([&] { has_run = true; });
  EXPECT_FALSE(has_run);
  for (Work& work : mailbox.TakeAll()) std::move(work)();
  EXPECT_TRUE(has_run);
  EXPECT_TRUE(mailbox.CloseIfEmpty());
}

TEST(MpiMailboxTest, ClosingDropsWhatIsInIt) {
  MpiMailbox mailbox;
  const auto held = std::make_shared<bool>(false);
  mailbox.Post([held] { *held = true; });
  mailbox.Close();
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_FALSE(*held);
}

TEST(MpiMailboxTest, WhoeverPostsToAClosedOneRunsTheWork) {
  MpiMailbox mailbox;
  {
    Doorbell doorbell;
    mailbox.RingAt(&doorbell);
    mailbox.Close();
  }
  bool has_run = false;
  mailbox.Post([&] { has_run = true; });
  EXPECT_TRUE(has_run);
  mailbox.Ring();  // Rings nothing: the doorbell is gone.
}

}  // namespace mpi_mailbox_test
}  // namespace tutti
