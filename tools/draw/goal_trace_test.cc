#include "tools/draw/goal_trace.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tutti/schedule.h"

namespace tutti {
namespace goal_trace_test {

TEST(GoalTraceTest, StepsRequireWhatTheyWaitFor) {
  ScheduleBuilder sender(1);
  auto send = sender.AddLane();
  const StepRef copied = send.Copy(Data(0), Input(0));
  send.Send(1, /*tag=*/7, Data(0));
  sender.AddLane().Send(1, /*tag=*/8, Data(0), copied);
  ScheduleBuilder receiver(1);
  auto recv = receiver.AddLane();
  const StepRef received = recv.Recv(0, /*tag=*/7, Data(0));
  auto reduce = receiver.AddLane();
  reduce.Recv(0, /*tag=*/8, Scratch(0));
  reduce.Reduce(Data(0), Scratch(0), Data(0), received);
  const std::vector<Schedule> schedules = {sender.Build(), receiver.Build()};
  const auto plan = GroupPlan::Create(
      {.num_ranks = 2, .in_place = {false, false}}, schedules);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(GoalTrace(*plan, {0, 40, 0, 40, 0, 0}),
            "num_ranks 2\n"
            "\n"
            "rank 0 {\n"
            "l1: calc 0\n"
            "l2: send 40b to 1 tag 7\n"
            "l3: calc 0\n"
            "l2 requires l1\n"
            "l3 requires l1\n"
            "}\n"
            "\n"
            "rank 1 {\n"
            "l1: recv 40b from 0 tag 7\n"
            "l2: calc 0\n"
            "l3: calc 0\n"
            "l3 requires l2\n"
            "l3 requires l1\n"
            "}\n");
}

TEST(GoalTraceTest, AWaitIsACalculationThatOthersRequire) {
  ScheduleBuilder builder(1);
  auto lane = builder.AddLane();
  const StepRef copied = builder.AddLane().Copy(Scratch(0), Input(0));
  lane.Wait(copied);
  lane.Copy(Data(0), Scratch(0));
  const std::vector<Schedule> schedules = {builder.Build()};
  const auto plan =
      GroupPlan::Create({.num_ranks = 1, .in_place = {false}}, schedules);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(GoalTrace(*plan, {0, 0, 0}),
            "num_ranks 1\n"
            "\n"
            "rank 0 {\n"
            "l1: calc 0\n"
            "l2: calc 0\n"
            "l3: calc 0\n"
            "l1 requires l3\n"
            "l2 requires l1\n"
            "}\n");
}

TEST(GoalTraceTest, ARankWithNothingToDoIsThereAllTheSame) {
  const std::vector<Schedule> schedules(1);
  const auto plan =
      GroupPlan::Create({.num_ranks = 1, .in_place = {false}}, schedules);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(GoalTrace(*plan, {}), "num_ranks 1\n\nrank 0 {\nl1: calc 0\n}\n");
}

}  // namespace goal_trace_test
}  // namespace tutti
