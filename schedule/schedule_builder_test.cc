#include <gtest/gtest.h>

#include "tutti/schedule.h"

namespace tutti {
namespace schedule_builder_test {

TEST(ScheduleBuilderTest, EveryCallAppendsItsStep) {
  ScheduleBuilder builder(/*num_chunks=*/4);
  auto lane = builder.AddLane();
  lane.Send(/*peer=*/1, /*tag=*/2, Input(0));
  lane.Recv(/*peer=*/3, /*tag=*/4, Scratch(1));
  lane.Reduce(Data(1), Scratch(1), Input(1));
  lane.Copy(Data(2), Input(2));
  lane.ReduceAndFinish(Data(1), Data(1), Input(1));
  lane.CopyAndFinish(Data(3), Input(3));
  lane.Wait({2, 1});
  lane.ReduceMany(Data(0), {Scratch(0, 1), Input(0), Scratch(0, 2)});
  lane.ReduceManyAndFinish(Data(0), {Data(0), Input(0)}, /*after=*/{1, 0});
  lane.ReduceManyAndFinish(Data(0), {Input(0)});
  EXPECT_EQ(ToString(builder.Build()),
            "4 chunks\n"
            "0.0: send input[0] to 1, tag 2\n"
            "0.1: recv scratch[1] from 3, tag 4\n"
            "0.2: data[1] = scratch[1] (+) input[1]\n"
            "0.3: data[2] = input[2]\n"
            "0.4: data[1] = data[1] (+) input[1], finish\n"
            "0.5: data[3] = input[3], finish\n"
            "0.6: wait, after 2.1\n"
            "0.7: data[0] = scratch[0].1 (+) input[0] (+) scratch[0].2\n"
            "0.8: data[0] = data[0] (+) input[0], finish, after 1.0\n"
            "0.9: data[0] = input[0], finish\n");
}

TEST(ScheduleBuilderTest, LaterStepsOfAnyLaneCanWaitForAStep) {
  ScheduleBuilder builder(/*num_chunks=*/1);
  auto first = builder.AddLane();
  auto second = builder.AddLane();
  const StepRef sent = first.Send(1, 0, Input(0));
  const StepRef arrived = first.Recv(1, 1, Data(0));
  EXPECT_EQ(sent, (StepRef{0, 0}));
  EXPECT_EQ(arrived, (StepRef{0, 1}));
  const StepRef copied = second.Copy(Scratch(0), Data(0), arrived);
  EXPECT_EQ(copied, (StepRef{1, 0}));
  EXPECT_EQ(second.Send(2, 0, Data(0), sent), (StepRef{1, 1}));
  EXPECT_EQ(second.Recv(2, 1, Data(0), sent), (StepRef{1, 2}));
  EXPECT_EQ(second.Reduce(Data(0), Data(0), Scratch(0), sent), (StepRef{1, 3}));
  EXPECT_EQ(second.ReduceAndFinish(Data(0), Data(0), Scratch(0), sent),
            (StepRef{1, 4}));
  EXPECT_EQ(second.CopyAndFinish(Data(0), Input(0), copied), (StepRef{1, 5}));
  const Schedule schedule = builder.Build();
  EXPECT_EQ(schedule.lanes[1][0].after, arrived);
  for (int step = 1; step < 5; ++step) {
    EXPECT_EQ(schedule.lanes[1][step].after, sent);
  }
  EXPECT_EQ(schedule.lanes[1][5].after, copied);
}

TEST(ScheduleBuilderTest, AHandleStaysValidWhenLanesAreAdded) {
  ScheduleBuilder builder(/*num_chunks=*/1);
  auto first = builder.AddLane();
  for (int lane = 1; lane < 100; ++lane) {
    builder.AddLane().Copy(Data(0), Input(0));
  }
  first.Send(1, 0, Input(0));
  const Schedule schedule = builder.Build();
  ASSERT_EQ(schedule.lanes.size(), 100u);
  for (const Lane& lane : schedule.lanes) EXPECT_EQ(lane.size(), 1u);
  EXPECT_EQ(schedule.lanes[0][0].kind, StepKind::kSend);
}

TEST(ScheduleBuilderTest, AScheduleMayHaveNothingToDo) {
  const Schedule schedule = ScheduleBuilder(/*num_chunks=*/1).Build();
  EXPECT_TRUE(schedule.lanes.empty());
  EXPECT_EQ(schedule.num_chunks, 1);
}

}  // namespace schedule_builder_test
}  // namespace tutti
