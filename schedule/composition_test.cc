#include "schedule/composition.h"

#include <gtest/gtest.h>

#include <string>

#include "schedule/group_memory.h"
#include "tutti/collective.h"
#include "tutti/schedule.h"

namespace tutti {
namespace composition_test {

// Rank 2 of an all-reduce of four ranks in two chunks.
Composition AllReduceOfFour() {
  return Composition({.num_ranks = 4, .num_chunks = 2}, /*rank=*/2);
}

// A part in which the first of two ranks adds the second rank's data.
Schedule Receiving() {
  ScheduleBuilder builder(/*num_chunks=*/1);
  auto lane = builder.AddLane();
  lane.Recv(/*peer=*/1, /*tag=*/0, Scratch(0));
  lane.ReduceAndFinish(Data(0), Input(0), Scratch(0));
  return builder.Build();
}

// A part in which the first rank sends its data to the second.
Schedule Sending() {
  ScheduleBuilder builder(/*num_chunks=*/1);
  builder.AddLane().Send(/*peer=*/1, /*tag=*/0, Input(0));
  builder.AddLane().Copy(Data(0), Input(0));
  return builder.Build();
}

TEST(CompositionTest, APartHasTheRanksChunksAndTagsOfTheWhole) {
  Composition whole = AllReduceOfFour();
  whole.Add({.num_tags = 5});
  whole.Add({.schedule = Receiving(),
             .ranks = {2, 3},
             .chunks = {1},
             .num_tags = 1,
             .finishes = true});
  EXPECT_EQ(ToString(whole.Build()),
            "2 chunks\n"
            "0.0: recv scratch[1].2 from 3, tag 5\n"
            "0.1: data[1] = input[1] (+) scratch[1].2, finish\n");
}

// A part in which the first of two ranks adds three chunks of the second.
Schedule ReceivingThree() {
  ScheduleBuilder builder(/*num_chunks=*/3);
  auto lane = builder.AddLane();
  lane.Recv(/*peer=*/1, /*tag=*/4, Scratch(0, 0, 3));
  lane.ReduceAndFinish(Data(0, 3), Input(0, 3), Scratch(0, 0, 3));
  return builder.Build();
}

TEST(CompositionTest, ARangeIsCutWhereItsChunksAreNotConsecutive) {
  Composition whole({.num_ranks = 4, .num_chunks = 5}, /*rank=*/2);
  whole.Add({.schedule = ReceivingThree(),
             .ranks = {2, 3},
             .chunks = {0, 3, 4},
             .tag_stride = 10});
  EXPECT_EQ(ToString(whole.Build()),
            "5 chunks\n"
            "0.0: recv scratch[0].1 from 3, tag 40\n"
            "0.1: data[0] = input[0] (+) scratch[0].1\n"
            "0.2: recv scratch[3-4].1 from 3, tag 50\n"
            "0.3: data[3-4] = input[3-4] (+) scratch[3-4].1\n");
}

TEST(CompositionTest, ARangeWaitsUntilAllItsChunksAreMade) {
  Composition whole({.num_ranks = 4, .num_chunks = 3}, /*rank=*/2);
  for (const int chunk : {0, 1, 2}) {
    whole.Add({.schedule = Receiving(),
               .ranks = {2, 3},
               .chunks = {chunk},
               .num_tags = 1});
  }
  ScheduleBuilder builder(/*num_chunks=*/3);
  builder.AddLane().Send(/*peer=*/1, /*tag=*/0, Input(0, 3));
  whole.Add(
      {.schedule = builder.Build(), .ranks = {2, 1}, .chunks = {0, 1, 2}});
  const std::string text = ToString(whole.Build());
  EXPECT_TRUE(
      text.ends_with("3.0: wait, after 0.1\n"
                     "3.1: wait, after 1.1\n"
                     "3.2: send data[0-2] to 1, tag 3, after 2.1\n"))
      << text;
}

TEST(CompositionTest, ARangeMustBeInOnePlace) {
  Composition whole({.num_ranks = 4, .num_chunks = 2}, /*rank=*/2);
  whole.Add({.schedule = Receiving(), .ranks = {2, 3}, .chunks = {1}});
  ScheduleBuilder builder(/*num_chunks=*/2);
  builder.AddLane().Send(/*peer=*/1, /*tag=*/0, Input(0, 2));
  whole.Add({.schedule = builder.Build(), .ranks = {2, 1}, .chunks = {0, 1}});
  EXPECT_EQ(whole.Build().problem,
            "the chunks of input[0-1] of a part are not in one place of the "
            "whole");
}

TEST(CompositionTest, TagsOfPartsMayLieBetweenEachOther) {
  Composition whole = AllReduceOfFour();
  ScheduleBuilder builder(/*num_chunks=*/1);
  builder.AddLane().Send(/*peer=*/1, /*tag=*/0, Input(0));
  builder.AddLane().Send(/*peer=*/1, /*tag=*/7, Input(0));
  const Schedule part = builder.Build();
  for (const int chunk : {0, 1}) {
    whole.Add({.schedule = part,
               .ranks = {2, 3},
               .chunks = {chunk},
               .first_tag = 3 + chunk,
               .tag_stride = 2});
  }
  EXPECT_EQ(ToString(whole.Build()),
            "2 chunks\n"
            "0.0: send input[0] to 3, tag 3\n"
            "1.0: send input[0] to 3, tag 17\n"
            "2.0: send input[1] to 3, tag 4\n"
            "3.0: send input[1] to 3, tag 18\n");
}

// Adds `part` for ranks 2 and 3 and chunk 1, and returns the problem.
std::string ProblemWith(const Schedule& part) {
  Composition whole = AllReduceOfFour();
  whole.Add({.schedule = part, .ranks = {2, 3}, .chunks = {1}});
  return whole.Build().problem;
}

TEST(CompositionTest, APartWithStepsThatCannotBeIsAProblem) {
  EXPECT_EQ(ProblemWith(Receiving()), "");
  Schedule wrong = Receiving();
  wrong.num_chunks = 0;
  EXPECT_EQ(ProblemWith(wrong), "a part has 0 chunks, where 1 are wanted");
  const std::string of_part = "a part of 2 ranks and 1 chunks has the step ";
  wrong = Receiving();
  wrong.lanes[0][1].right = Input(-1);
  EXPECT_EQ(ProblemWith(wrong),
            of_part + "\"data[0] = input[0] (+) input[-1], finish\"");
  wrong.lanes[0][1].right = Scratch(1);
  EXPECT_EQ(ProblemWith(wrong),
            of_part + "\"data[0] = input[0] (+) scratch[1], finish\"");
  wrong.lanes[0][1].right = Scratch(0, /*bank=*/-1);
  EXPECT_NE(ProblemWith(wrong), "");
  wrong = Receiving();
  wrong.lanes[0][1].into = Data(5);
  EXPECT_NE(ProblemWith(wrong), "");
  wrong = Receiving();
  wrong.lanes[0][0].peer = 2;
  EXPECT_NE(ProblemWith(wrong), "");
  for (const StepRef after : {StepRef{1, 0}, StepRef{0, 2}, StepRef{0, -1}}) {
    wrong = Receiving();
    wrong.lanes[0][1].after = after;
    EXPECT_NE(ProblemWith(wrong), "");
  }
}

TEST(CompositionTest, TheFirstProblemStaysAndNothingIsAddedThen) {
  Composition whole = AllReduceOfFour();
  Schedule wrong = Receiving();
  wrong.num_chunks = 3;
  for (const Schedule& part : {wrong, Receiving()}) {
    whole.Add({.schedule = part, .ranks = {2, 3}, .chunks = {1}});
  }
  const Schedule built = whole.Build();
  EXPECT_EQ(built.problem, "a part has 3 chunks, where 1 are wanted");
  EXPECT_TRUE(built.lanes.empty());
}

TEST(CompositionTest, WhatIsMadeAnewWaitsForWhatHasMadeAndReadIt) {
  Composition whole = AllReduceOfFour();
  ScheduleBuilder builder(/*num_chunks=*/1);
  auto lane = builder.AddLane();
  const StepRef made = lane.Recv(/*peer=*/1, /*tag=*/0, Data(0));
  builder.AddLane().Send(/*peer=*/0, /*tag=*/0, Data(0), made);
  whole.Add({.schedule = builder.Build(),
             .ranks = {0, 1, 2},
             .chunks = {1},
             .num_tags = 1,
             .ends_at_once = true});
  ScheduleBuilder arriving(/*num_chunks=*/1);
  arriving.AddLane().Recv(/*peer=*/1, /*tag=*/0, Data(0));
  whole.Add({.schedule = arriving.Build(), .ranks = {2, 3}, .chunks = {1}});
  EXPECT_EQ(ToString(whole.Build()),
            "2 chunks\n"
            "0.0: recv data[1] from 1, tag 0\n"
            "1.0: send data[1] to 0, tag 0, after 0.0\n"
            "2.0: wait, after 0.0\n"
            "2.1: wait, after 1.0\n"
            "3.0: recv data[1] from 3, tag 1, after 2.1\n");
}

TEST(CompositionTest, AllOperandsAreThoseOfTheWhole) {
  Composition whole = AllReduceOfFour();
  whole.Add(
      {.schedule = Receiving(), .ranks = {2, 3}, .chunks = {1}, .num_tags = 1});
  ScheduleBuilder builder(/*num_chunks=*/1);
  auto lane = builder.AddLane();
  const StepRef arrived = builder.AddLane().Recv(1, 0, Scratch(0, 1));
  lane.Recv(2, 0, Scratch(0));
  lane.ReduceManyAndFinish(Data(0), {Scratch(0), Scratch(0, 1), Input(0)},
                           arrived);
  whole.Add({.schedule = builder.Build(),
             .ranks = {2, 0, 1},
             .chunks = {1},
             .num_tags = 1,
             .finishes = true});
  // The first part's sum is an operand; the reduction waits for it.
  EXPECT_EQ(ToString(whole.Build()),
            "2 chunks\n"
            "0.0: recv scratch[1].1 from 3, tag 0\n"
            "0.1: data[1] = input[1] (+) scratch[1].1\n"
            "1.0: recv scratch[1].3 from 1, tag 1\n"
            "1.1: wait, after 0.1\n"
            "1.2: data[1] = scratch[1].3 (+) scratch[1].4 (+) data[1], "
            "finish, after 2.0\n"
            "2.0: recv scratch[1].4 from 0, tag 1\n");
}

TEST(CompositionTest, APartStartsOnAChunkWhenThePartBeforeHasMadeIt) {
  Composition whole = AllReduceOfFour();
  EXPECT_FALSE(whole.IsInOutput(1));
  whole.Add(
      {.schedule = Receiving(), .ranks = {2, 3}, .chunks = {1}, .num_tags = 1});
  EXPECT_TRUE(whole.IsInOutput(1));
  EXPECT_FALSE(whole.IsInOutput(0));
  whole.Add(
      {.schedule = Sending(), .ranks = {2, 0}, .chunks = {1}, .num_tags = 1});
  whole.Add(
      {.schedule = Sending(), .ranks = {2, 0}, .chunks = {0}, .num_tags = 1});
  // The copy of the chunk to itself is left out.
  EXPECT_EQ(ToString(whole.Build()),
            "2 chunks\n"
            "0.0: recv scratch[1].1 from 3, tag 0\n"
            "0.1: data[1] = input[1] (+) scratch[1].1\n"
            "1.0: send data[1] to 0, tag 1, after 0.1\n"
            "2.0: send input[0] to 0, tag 2\n"
            "3.0: data[0] = input[0]\n");
}

TEST(CompositionTest, OfAReceiveAndItsReductionTheFirstWaits) {
  Composition whole = AllReduceOfFour();
  for (const int peer : {3, 0}) {
    whole.Add({.schedule = Receiving(),
               .ranks = {2, peer},
               .chunks = {0},
               .num_tags = 1,
               .finishes = peer == 0});
  }
  EXPECT_EQ(ToString(whole.Build()),
            "2 chunks\n"
            "0.0: recv scratch[0].1 from 3, tag 0\n"
            "0.1: data[0] = input[0] (+) scratch[0].1\n"
            "1.0: recv scratch[0].3 from 0, tag 1, after 0.1\n"
            "1.1: data[0] = data[0] (+) scratch[0].3, finish\n");
}

TEST(CompositionTest, AStepThatWaitsAlreadyIsPrecededByOneThatWaitsToo) {
  Composition whole = AllReduceOfFour();
  whole.Add(
      {.schedule = Receiving(), .ranks = {2, 3}, .chunks = {0}, .num_tags = 1});
  // The first lane of this part waits for its second lane.
  Schedule part;
  part.lanes = {
      {{.kind = StepKind::kSend, .left = Input(0), .peer = 1, .after = {1, 0}}},
      {{.kind = StepKind::kRecv, .into = Scratch(0), .peer = 1, .tag = 1}}};
  whole.Add({.schedule = part, .ranks = {2, 0}, .chunks = {0}, .num_tags = 2});
  EXPECT_EQ(ToString(whole.Build()),
            "2 chunks\n"
            "0.0: recv scratch[0].1 from 3, tag 0\n"
            "0.1: data[0] = input[0] (+) scratch[0].1\n"
            "1.0: wait, after 0.1\n"
            "1.1: send data[0] to 0, tag 1, after 2.0\n"
            "2.0: recv scratch[0].3 from 0, tag 2\n");
}

TEST(CompositionTest, StepsBehindACopyOfAChunkToItselfWaitForTheChunk) {
  Composition whole = AllReduceOfFour();
  whole.Add(
      {.schedule = Receiving(), .ranks = {2, 3}, .chunks = {1}, .num_tags = 1});
  ScheduleBuilder builder(/*num_chunks=*/1);
  auto lane = builder.AddLane();
  lane.Copy(Data(0), Input(0));
  lane.Send(/*peer=*/1, /*tag=*/0, Data(0));
  whole.Add({.schedule = builder.Build(),
             .ranks = {2, 0},
             .chunks = {1},
             .num_tags = 1});
  EXPECT_EQ(ToString(whole.Build()),
            "2 chunks\n"
            "0.0: recv scratch[1].1 from 3, tag 0\n"
            "0.1: data[1] = input[1] (+) scratch[1].1\n"
            "1.0: data[1] = data[1], after 0.1\n"
            "1.1: send data[1] to 0, tag 1\n");
}

TEST(CompositionTest, WhatEndsAtOnceIsThereWhenAllOfItHasEnded) {
  Composition whole = AllReduceOfFour();
  whole.Add(
      {.schedule = Receiving(), .ranks = {2, 3}, .chunks = {1}, .num_tags = 1});
  ScheduleBuilder builder(/*num_chunks=*/1);
  auto lane = builder.AddLane();
  lane.Recv(/*peer=*/1, /*tag=*/0, Scratch(0));
  lane.Reduce(Data(0), Scratch(0), Input(0));
  builder.AddLane().Send(/*peer=*/1, /*tag=*/0, Input(0));
  whole.Add({.schedule = builder.Build(),
             .ranks = {2, 0},
             .chunks = {0},
             .num_tags = 1,
             .ends_at_once = true});
  whole.Add(
      {.schedule = Sending(), .ranks = {2, 3}, .chunks = {0}, .num_tags = 1});
  EXPECT_EQ(ToString(whole.Build()),
            "2 chunks\n"
            "0.0: recv scratch[1].1 from 3, tag 0\n"
            "0.1: data[1] = input[1] (+) scratch[1].1\n"
            "1.0: recv scratch[0].3 from 0, tag 1\n"
            "1.1: data[0] = scratch[0].3 (+) input[0]\n"
            "2.0: send input[0] to 0, tag 1\n"
            "3.0: wait, after 1.1\n"
            "3.1: wait, after 2.0\n"
            "4.0: send data[0] to 3, tag 2, after 3.1\n");
}

TEST(CompositionTest, WhatIsNotInTheOutputIsMadeInScratch) {
  Composition whole(
      {.type = CollectiveType::kReduceScatter, .num_ranks = 4, .num_chunks = 4},
      /*rank=*/2);
  for (const int block : {2, 3}) {
    whole.Add({.schedule = Receiving(),
               .ranks = {2, 3},
               .chunks = {block},
               .num_tags = 1});
  }
  whole.Add(
      {.schedule = Sending(), .ranks = {2, 0}, .chunks = {3}, .num_tags = 1});
  EXPECT_EQ(ToString(whole.Build()),
            "4 chunks\n"
            "0.0: recv scratch[2].1 from 3, tag 0\n"
            "0.1: data[2] = input[2] (+) scratch[2].1\n"
            "1.0: recv scratch[3].3 from 3, tag 1\n"
            "1.1: scratch[3].2 = input[3] (+) scratch[3].3\n"
            "2.0: send scratch[3].2 to 0, tag 2, after 1.1\n"
            "3.0: scratch[3].4 = scratch[3].2, after 1.1\n");
}

}  // namespace composition_test
}  // namespace tutti
