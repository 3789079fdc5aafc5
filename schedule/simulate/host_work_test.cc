#include "schedule/simulate/host_work.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti {
namespace host_work_test {

using ::testing::ElementsAre;

TEST(HostWorkTest, PiecesAreSharedOutAmongTheProcessorsOfTheHost) {
  HostWork work({.processors = 2}, /*num_tasks=*/3, /*is_inline=*/false);
  for (int task : {0, 1, 2}) work.Add(task, /*ready=*/10, /*duration=*/5);
  EXPECT_THAT(work.Do(), ElementsAre(15, 15, 20));
  EXPECT_EQ(work.busy(), 15);
}

TEST(HostWorkTest, WhatIsReadyFirstIsDoneFirst) {
  HostWork work({.processors = 1}, 1, false);
  work.Add(0, 3, 10);
  work.Add(0, 1, 4);
  work.Add(0, 3, 1);
  EXPECT_THAT(work.Do(), ElementsAre(15, 5, 16));
}

TEST(HostWorkTest, HostsDoNotWaitForEachOther) {
  HostWork work({.tasks = 2, .processors = 1}, /*num_tasks=*/5, false);
  for (int task = 0; task < 5; ++task) work.Add(task, 0, 7);
  EXPECT_THAT(work.Do(), ElementsAre(7, 14, 7, 14, 7));
}

TEST(HostWorkTest, WorkFollowsWhatWasDoneBefore) {
  HostWork work({.processors = 2}, 1, false);
  work.Add(0, 0, 10);
  work.Add(0, 0, 4);
  EXPECT_THAT(work.Do(), ElementsAre(10, 4));
  work.Add(0, 1, 1);
  work.Add(0, 1, 6);
  EXPECT_THAT(work.Do(), ElementsAre(5, 11));
  EXPECT_THAT(work.Do(), ElementsAre());
}

// The third of the later pieces is ready at 2. If the first two each took a
// processor, it would wait until 11.
TEST(HostWorkTest, APieceThatWaitsForItsTaskLeavesTheProcessorToOthers) {
  HostWork work({.processors = 2}, /*num_tasks=*/2, /*is_inline=*/true);
  work.Add(0, 0, 1);
  work.Add(1, 0, 1);
  EXPECT_THAT(work.Do(), ElementsAre(1, 1));
  work.Add(0, 1, 10);
  work.Add(0, 1, 10);
  work.Add(1, 2, 3);
  EXPECT_THAT(work.Do(), ElementsAre(11, 21, 5));
}

}  // namespace host_work_test
}  // namespace tutti
