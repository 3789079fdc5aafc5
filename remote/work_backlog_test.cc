#include "remote/work_backlog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "tests/doubles/simulated_environment.h"
#include "tutti/environment.h"

namespace tutti {
namespace work_backlog_test {

using testing::ElementsAre;

TEST(WorkBacklogTest, RunsOnTheQueue) {
  SimulatedEnvironment environment(/*seed=*/1);
  WorkBacklog backlog(environment.get().queue);
  int num_run = 0;
  backlog.Add([&] { ++num_run; });
  EXPECT_EQ(num_run, 0);
  environment.RunAll();
  EXPECT_EQ(num_run, 1);
}

TEST(WorkBacklogTest, WhatTheQueueHasNotRunAndWhatThatAddsRunsInTheDrain) {
  SimulatedEnvironment environment(/*seed=*/1);
  std::vector<int> order;
  {
    WorkBacklog backlog(environment.get().queue);
    backlog.Add([&] {
      order.push_back(1);
      backlog.Add([&] { order.push_back(3); });
    });
    backlog.Add([&] { order.push_back(2); });
    backlog.Drain();
    EXPECT_THAT(order, ElementsAre(1, 2, 3));
  }
  environment.RunAll();  // Nothing is left of it.
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(WorkBacklogTest, TheDrainWaitsForWhatRunsOnAnotherThread) {
  DefaultEnvironment environment(1);
  WorkBacklog backlog(environment.get().queue);
  BlockingCounter begun(1);
  std::atomic<bool> ended{false};
  backlog.Add([&] {
    begun.DecrementCount();
    ended = true;
  });
  begun.Wait();
  backlog.Drain();
  EXPECT_TRUE(ended);
}

}  // namespace work_backlog_test
}  // namespace tutti
