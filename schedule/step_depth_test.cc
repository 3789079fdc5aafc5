#include "schedule/step_depth.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedule/proof/symbolic.h"
#include "tutti/schedule.h"

namespace tutti {
namespace step_depth_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Depths of all steps: rank by rank, lane by lane, in order.
std::vector<int> DepthsOf(const std::vector<Schedule>& schedules) {
  const int num_ranks = static_cast<int>(schedules.size());
  const auto plan =
      GroupPlan::Create({.num_ranks = num_ranks,
                         .num_chunks = schedules[0].num_chunks,
                         .in_place = std::vector<bool>(schedules.size())},
                        schedules);
  EXPECT_TRUE(plan.ok()) << plan.status();
  const auto run = RunSymbolically(*plan);
  EXPECT_TRUE(run.ok()) << run.status();
  return StepDepths(*plan, run->completion_order);
}

TEST(StepDepthTest, NothingToDoHasNoDepths) {
  EXPECT_THAT(DepthsOf({ScheduleBuilder(1).Build()}), IsEmpty());
}

TEST(StepDepthTest, OnlyTransfersTakeTime) {
  ScheduleBuilder sender(1);
  auto send = sender.AddLane();
  send.Copy(Data(0), Input(0));
  send.Send(1, /*tag=*/0, Data(0));
  send.Copy(Scratch(0), Input(0));
  ScheduleBuilder receiver(1);
  auto recv = receiver.AddLane();
  recv.Recv(0, /*tag=*/0, Data(0));
  recv.Copy(Scratch(0), Data(0));
  EXPECT_THAT(DepthsOf({sender.Build(), receiver.Build()}),
              ElementsAre(0, 1, 1, /* rank 1: */ 1, 1));
}

TEST(StepDepthTest, LanesRunAtOnce) {
  ScheduleBuilder sender(2);
  ScheduleBuilder receiver(2);
  for (int chunk : {0, 1}) {
    sender.AddLane().Send(1, chunk, Input(chunk));
    receiver.AddLane().Recv(0, chunk, Data(chunk));
  }
  EXPECT_THAT(DepthsOf({sender.Build(), receiver.Build()}),
              ElementsAre(1, 1, 1, 1));
}

TEST(StepDepthTest, AfterOrdersLanes) {
  ScheduleBuilder sender(2);
  sender.AddLane().Send(1, 0, Input(0));
  sender.AddLane().Send(1, 1, Input(1), /*after=*/{0, 0});
  ScheduleBuilder receiver(2);
  receiver.AddLane().Recv(0, 0, Data(0));
  receiver.AddLane().Recv(0, 1, Data(1));
  EXPECT_THAT(DepthsOf({sender.Build(), receiver.Build()}),
              ElementsAre(1, 2, 1, 2));
}

TEST(StepDepthTest, APassedOnChunkIsDeeperByOneOnEachRank) {
  constexpr int kNumRanks = 4;
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < kNumRanks; ++rank) {
    ScheduleBuilder builder(1);
    auto lane = builder.AddLane();
    if (rank > 0) lane.Recv(rank - 1, 0, Data(0));
    if (rank < kNumRanks - 1) {
      lane.Send(rank + 1, 0, rank == 0 ? Input(0) : Data(0));
    }
    schedules.push_back(builder.Build());
  }
  EXPECT_THAT(DepthsOf(schedules), ElementsAre(1, 1, 2, 2, 3, 3));
}

TEST(StepDepthTest, ASenderThatIsAheadWaitsForItsReceiver) {
  ScheduleBuilder first(1);
  first.AddLane().Send(2, 0, Input(0));
  ScheduleBuilder second(1);
  second.AddLane().Send(2, 0, Input(0));
  ScheduleBuilder receiver(1);
  auto lane = receiver.AddLane();
  lane.Recv(0, 0, Scratch(0));
  lane.Recv(1, 0, Data(0));
  EXPECT_THAT(DepthsOf({first.Build(), second.Build(), receiver.Build()}),
              ElementsAre(1, 2, 1, 2));
}

}  // namespace step_depth_test
}  // namespace tutti
