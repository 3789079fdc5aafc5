#include "tutti/schedule.h"

#include <gtest/gtest.h>

namespace tutti {
namespace schedule_test {

TEST(ScheduleTest, ASlotIsWrittenWithItsSpaceAndChunk) {
  EXPECT_EQ(ToString(Input(2)), "input[2]");
  EXPECT_EQ(ToString(Data(3)), "data[3]");
  EXPECT_EQ(ToString(Scratch(4)), "scratch[4]");
  EXPECT_EQ(ToString(Scratch(4, /*bank=*/1)), "scratch[4].1");
  EXPECT_EQ(ToString(Data(3, /*num_chunks=*/4)), "data[3-6]");
  EXPECT_EQ(ToString(Scratch(3, /*bank=*/1, /*num_chunks=*/2)),
            "scratch[3-4].1");
}

TEST(ScheduleTest, AStepIsWrittenAsWhatItDoes) {
  EXPECT_EQ(
      ToString(
          Step{.kind = StepKind::kSend, .left = Input(0), .peer = 3, .tag = 7}),
      "send input[0] to 3, tag 7");
  EXPECT_EQ(
      ToString(Step{
          .kind = StepKind::kRecv, .into = Scratch(1), .peer = 2, .tag = 5}),
      "recv scratch[1] from 2, tag 5");
  EXPECT_EQ(ToString(Step{.kind = StepKind::kReduce,
                          .into = Data(1),
                          .left = Scratch(1),
                          .right = Input(1)}),
            "data[1] = scratch[1] (+) input[1]");
  EXPECT_EQ(ToString(Step{
                .kind = StepKind::kCopy, .into = Data(1), .left = Input(1)}),
            "data[1] = input[1]");
}

TEST(ScheduleTest, AStepIsWrittenWithTheFinalOpAndWhatItWaitsFor) {
  EXPECT_EQ(ToString(Step{.kind = StepKind::kCopy,
                          .finish = true,
                          .into = Data(0),
                          .left = Input(0),
                          .after = {.lane = 2, .step = 4}}),
            "data[0] = input[0], finish, after 2.4");
}

TEST(ScheduleTest, AScheduleIsWrittenStepByStep) {
  const Schedule schedule = {
      .num_chunks = 2,
      .lanes = {
          {{.kind = StepKind::kCopy, .into = Data(0), .left = Input(0)},
           {.kind = StepKind::kSend, .left = Data(0), .peer = 1, .tag = 0}},
          {},
          {{.kind = StepKind::kRecv, .into = Data(1), .peer = 1, .tag = 0}}}};
  EXPECT_EQ(ToString(schedule),
            "2 chunks\n"
            "0.0: data[0] = input[0]\n"
            "0.1: send data[0] to 1, tag 0\n"
            "2.0: recv data[1] from 1, tag 0\n");
}

TEST(ScheduleTest, AStepRefIsSetIfItNamesALane) {
  EXPECT_FALSE(StepRef().is_set());
  EXPECT_TRUE((StepRef{0, 0}).is_set());
}

}  // namespace schedule_test
}  // namespace tutti
