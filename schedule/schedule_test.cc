#include "tutti/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "schedule/compiled_schedule.h"
#include "schedule/composition.h"
#include "schedule/group_memory.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"

namespace tutti {
namespace schedule_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

// --- schedule ----------------------------------------------------------------

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

// --- schedule builder --------------------------------------------------------

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

// --- compiled schedule -------------------------------------------------------

using Incoming = CompiledSchedule::Incoming;
using Op = CompiledSchedule::Op;

constexpr int kSize = 4;
constexpr int kRank = 1;

constexpr char kNoSize[] = "may differ in size";

absl::StatusOr<CompiledSchedule> Compile(
    const Schedule& schedule,
    CollectiveType type = CollectiveType::kAllReduce) {
  const GroupMemory memory = {.type = type,
                              .num_ranks = kSize,
                              .num_chunks = schedule.num_chunks,
                              .in_place = std::vector<bool>(kSize)};
  return CompiledSchedule::Compile(schedule, memory, kRank);
}

std::vector<StepKind> KindsOf(const CompiledSchedule& compiled) {
  std::vector<StepKind> kinds;
  for (const Op& op : compiled.ops()) kinds.push_back(op.kind);
  return kinds;
}

// The ops that wait for the op numbered `op`.
std::vector<int> DependentsOf(const CompiledSchedule& compiled, int op) {
  const auto dependents = compiled.dependents(compiled.ops()[op]);
  return {dependents.begin(), dependents.end()};
}

TEST(CompiledScheduleTest, AnEmptyScheduleHasNothingToDo) {
  const auto compiled = Compile(ScheduleBuilder(3).Build()).value();
  EXPECT_EQ(compiled.num_chunks(), 3);
  EXPECT_THAT(compiled.ops(), IsEmpty());
  EXPECT_THAT(compiled.roots(), IsEmpty());
  EXPECT_THAT(compiled.scratch(), IsEmpty());
}

TEST(CompiledScheduleTest, AnOpIsItsStep) {
  ScheduleBuilder builder(2);
  auto lane = builder.AddLane();
  lane.Send(/*peer=*/2, /*tag=*/7, Input(1));
  lane.Recv(/*peer=*/3, /*tag=*/8, Data(0));
  lane.ReduceAndFinish(Data(1), Scratch(1), Input(1));
  const auto compiled = Compile(builder.Build()).value();
  ASSERT_THAT(compiled.ops(), SizeIs(3));
  const Op& send = compiled.ops()[0];
  EXPECT_EQ(send.kind, StepKind::kSend);
  EXPECT_EQ(send.left, Input(1));
  EXPECT_EQ(send.peer, 2);
  EXPECT_EQ(send.tag, 7);
  const Op& recv = compiled.ops()[1];
  EXPECT_EQ(recv.kind, StepKind::kRecv);
  EXPECT_EQ(recv.into, Data(0));
  EXPECT_EQ(recv.peer, 3);
  EXPECT_EQ(recv.tag, 8);
  EXPECT_EQ(recv.incoming, Incoming::kNone);
  EXPECT_FALSE(recv.finish);
  const Op& reduce = compiled.ops()[2];
  EXPECT_EQ(reduce.kind, StepKind::kReduce);
  EXPECT_EQ(reduce.into, Data(1));
  EXPECT_EQ(reduce.left, Scratch(1));
  EXPECT_EQ(reduce.right, Input(1));
  EXPECT_TRUE(reduce.finish);
}

TEST(CompiledScheduleTest, AReductionHasAllItsOperands) {
  ScheduleBuilder builder(2);
  auto lane = builder.AddLane();
  lane.Recv(/*peer=*/2, /*tag=*/0, Scratch(1, 4));
  lane.ReduceMany(Data(1), {Scratch(1, 4), Input(1), Scratch(1, 5), Data(1)});
  lane.ReduceMany(Data(0), {Input(0), Scratch(0), Scratch(0, 1)});
  const auto compiled = Compile(builder.Build()).value();
  // A reduction of more than two operands is not fused with a receive.
  ASSERT_THAT(compiled.ops(), SizeIs(3));
  EXPECT_EQ(compiled.ops()[0].incoming, Incoming::kNone);
  const Op& first = compiled.ops()[1];
  EXPECT_EQ(first.left, Scratch(1, 4));
  EXPECT_EQ(first.right, Input(1));
  EXPECT_THAT(compiled.more(first), ElementsAre(Scratch(1, 5), Data(1)));
  EXPECT_THAT(compiled.more(compiled.ops()[2]), ElementsAre(Scratch(0, 1)));
  EXPECT_THAT(compiled.scratch(),
              UnorderedElementsAre(Scratch(1, 4), Scratch(1, 5), Scratch(0),
                                   Scratch(0, 1)));
}

TEST(CompiledScheduleTest, AnyOperandMustBeThere) {
  ScheduleBuilder builder(2);
  builder.AddLane().ReduceMany(Data(0), {Input(0), Input(0), Input(2)});
  EXPECT_THAT(Compile(builder.Build()),
              IsInvalidArgument("data[0] = input[0] (+) input[0] (+) "
                                "input[2]): this rank has no such chunk"));
}

TEST(CompiledScheduleTest, AWaitMakesTheStepsBehindItWait) {
  ScheduleBuilder builder(1);
  auto waiting = builder.AddLane();
  const StepRef first = builder.AddLane().Recv(2, 0, Scratch(0, 1));
  const StepRef second = builder.AddLane().Recv(3, 0, Scratch(0, 2));
  waiting.Wait(first);
  waiting.Copy(Data(0), Scratch(0, 1), second);
  const auto compiled = Compile(builder.Build()).value();
  EXPECT_THAT(compiled.roots(), UnorderedElementsAre(2, 3));
  EXPECT_EQ(compiled.ops()[0].num_waits, 1);
  EXPECT_EQ(compiled.ops()[1].num_waits, 2);
  EXPECT_THAT(compiled.dependents(compiled.ops()[0]), ElementsAre(1));
}

TEST(CompiledScheduleTest, AStepWaitsForTheOneBeforeItInItsLane) {
  ScheduleBuilder builder(1);
  for (int i = 0; i < 2; ++i) {
    auto lane = builder.AddLane();
    lane.Copy(Data(0), Input(0));
    lane.Send(0, i, Data(0));
  }
  const auto compiled = Compile(builder.Build()).value();
  EXPECT_THAT(compiled.roots(), ElementsAre(0, 2));
  EXPECT_THAT(DependentsOf(compiled, 0), ElementsAre(1));
  EXPECT_THAT(DependentsOf(compiled, 1), IsEmpty());
  EXPECT_THAT(DependentsOf(compiled, 2), ElementsAre(3));
  EXPECT_EQ(compiled.ops()[0].num_waits, 0);
  EXPECT_EQ(compiled.ops()[3].num_waits, 1);
}

TEST(CompiledScheduleTest, AStepWaitsForAStepOfAnotherLaneToo) {
  ScheduleBuilder builder(1);
  auto first = builder.AddLane();
  const StepRef copied = first.Copy(Data(0), Input(0));
  first.Send(0, 0, Data(0));
  auto second = builder.AddLane();
  second.Send(2, 0, Input(0));
  second.Send(2, 1, Data(0), copied);
  builder.AddLane().Send(3, 0, Data(0), copied);
  const auto compiled = Compile(builder.Build()).value();
  EXPECT_THAT(compiled.roots(), ElementsAre(0, 2));
  EXPECT_THAT(DependentsOf(compiled, 0), UnorderedElementsAre(1, 3, 4));
  EXPECT_EQ(compiled.ops()[3].num_waits, 2);
  EXPECT_EQ(compiled.ops()[4].num_waits, 1);
}

// Counts the wait twice, and the step's completion counts twice as well.
TEST(CompiledScheduleTest, AStepMayWaitForTheOneBeforeItByNameToo) {
  ScheduleBuilder builder(1);
  auto lane = builder.AddLane();
  const StepRef copied = lane.Copy(Data(0), Input(0));
  lane.Send(0, 0, Data(0), copied);
  const auto compiled = Compile(builder.Build()).value();
  EXPECT_EQ(static_cast<size_t>(compiled.ops()[1].num_waits),
            DependentsOf(compiled, 0).size());
}

// A receive into scratch and the reduction that can be fused with it.
Schedule RecvAndReduce(Slot left, Slot right) {
  ScheduleBuilder builder(1);
  auto lane = builder.AddLane();
  lane.Recv(/*peer=*/0, /*tag=*/5, Scratch(0));
  lane.ReduceAndFinish(Data(0), left, right);
  lane.Send(0, 0, Data(0));
  return builder.Build();
}

TEST(CompiledScheduleTest, AReceiveIsFusedWithTheReductionOfWhatArrives) {
  for (const bool is_left : {true, false}) {
    const auto compiled = Compile(is_left ? RecvAndReduce(Scratch(0), Input(0))
                                          : RecvAndReduce(Input(0), Scratch(0)))
                              .value();
    ASSERT_THAT(KindsOf(compiled),
                ElementsAre(StepKind::kRecv, StepKind::kSend));
    const Op& fused = compiled.ops()[0];
    EXPECT_EQ(fused.incoming, is_left ? Incoming::kLeft : Incoming::kRight);
    EXPECT_EQ(fused.into, Data(0));
    EXPECT_EQ(is_left ? fused.right : fused.left, Input(0));
    EXPECT_EQ(fused.peer, 0);
    EXPECT_EQ(fused.tag, 5);
    EXPECT_TRUE(fused.finish);
    EXPECT_THAT(DependentsOf(compiled, 0), ElementsAre(1));
    EXPECT_THAT(compiled.scratch(), IsEmpty());
  }
}

TEST(CompiledScheduleTest, WhoWaitsForAFusedStepWaitsForTheWhole) {
  for (int step = 0; step < 2; ++step) {
    Schedule schedule = RecvAndReduce(Scratch(0), Input(0));
    schedule.lanes.push_back({{.kind = StepKind::kSend,
                               .left = Data(0),
                               .peer = 2,
                               .after = {.lane = 0, .step = step}}});
    const auto compiled = Compile(schedule).value();
    EXPECT_THAT(DependentsOf(compiled, 0), UnorderedElementsAre(1, 2));
  }
}

TEST(CompiledScheduleTest, AFusedReceiveMayWaitForAnotherLane) {
  Schedule schedule = RecvAndReduce(Scratch(0), Input(0));
  schedule.lanes.push_back(
      {{.kind = StepKind::kCopy, .into = Scratch(0, 1), .left = Input(0)}});
  schedule.lanes[0][0].after = {.lane = 1, .step = 0};
  const auto compiled = Compile(schedule).value();
  EXPECT_EQ(compiled.ops()[0].incoming, Incoming::kLeft);
  EXPECT_EQ(compiled.ops()[0].num_waits, 1);
}

struct Unfusable {
  std::string name;
  void (*change)(Schedule* schedule);
};

class UnfusableTest : public testing::TestWithParam<Unfusable> {};

TEST_P(UnfusableTest, IsNotFused) {
  Schedule schedule = RecvAndReduce(Scratch(0), Input(0));
  schedule.lanes.push_back(
      {{.kind = StepKind::kCopy, .into = Scratch(0, 1), .left = Input(0)}});
  GetParam().change(&schedule);
  const auto compiled = Compile(schedule).value();
  size_t num_steps = 0;
  for (const Lane& lane : schedule.lanes) num_steps += lane.size();
  EXPECT_THAT(compiled.ops(), SizeIs(num_steps));
  for (const Op& op : compiled.ops()) {
    EXPECT_EQ(op.incoming, Incoming::kNone);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Receives, UnfusableTest,
    testing::Values(
        Unfusable{"IfSomebodyElseReadsTheScratch",
                  [](Schedule* schedule) {
                    schedule->lanes[1].push_back({.kind = StepKind::kSend,
                                                  .left = Scratch(0),
                                                  .peer = 2,
                                                  .after = {0, 0}});
                  }},
        Unfusable{"IfBothOperandsAreTheScratch",
                  [](Schedule* schedule) {
                    schedule->lanes[0][1].right = Scratch(0);
                  }},
        Unfusable{"IfItDoesNotArriveInScratch",
                  [](Schedule* schedule) {
                    schedule->lanes[0][0].into = Data(0);
                    schedule->lanes[1].push_back({.kind = StepKind::kCopy,
                                                  .into = Scratch(0, 2),
                                                  .left = Scratch(0)});
                    schedule->lanes[0][1].left = Data(0);
                  }},
        Unfusable{"IfTheReductionReadsAnotherBank",
                  [](Schedule* schedule) {
                    schedule->lanes[0][1].left = Scratch(0, 1);
                  }},
        Unfusable{
            "IfTheReductionWaitsForAnotherLane",
            [](Schedule* schedule) { schedule->lanes[0][1].after = {1, 0}; }},
        Unfusable{"IfTheReductionDoesNotFollowAtOnce",
                  [](Schedule* schedule) {
                    std::swap(schedule->lanes[0][1], schedule->lanes[0][2]);
                  }},
        Unfusable{"IfItIsCopiedInstead",
                  [](Schedule* schedule) {
                    schedule->lanes[0][1].kind = StepKind::kCopy;
                  }},
        Unfusable{
            "IfNobodyReadsIt",
            [](Schedule* schedule) { schedule->lanes[0][1].left = Input(0); }}),
    [](const auto& info) { return info.param.name; });

TEST(CompiledScheduleTest, ListsTheScratchThatNeedsMemoryEachOnce) {
  ScheduleBuilder builder(2);
  auto lane = builder.AddLane();
  lane.Recv(0, 0, Scratch(0));  // Fused: no memory.
  lane.Reduce(Scratch(0, 1), Scratch(0), Input(0));
  lane.Copy(Scratch(0, 2), Scratch(0, 1));
  lane.Recv(0, 1, Scratch(1));
  lane.Send(2, 0, Scratch(1));
  lane.Reduce(Data(0), Scratch(0, 1), Scratch(0, 2));
  const auto compiled = Compile(builder.Build()).value();
  EXPECT_THAT(compiled.scratch(),
              UnorderedElementsAre(Scratch(0, 1), Scratch(0, 2), Scratch(1)));
}

TEST(CompiledScheduleTest, TheOtherOperandOfAFusedReductionNeedsMemory) {
  for (const bool is_left : {true, false}) {
    ScheduleBuilder builder(1);
    auto lane = builder.AddLane();
    lane.Copy(Scratch(0, 1), Input(0));
    lane.Recv(0, 0, Scratch(0));
    if (is_left) {
      lane.Reduce(Data(0), Scratch(0), Scratch(0, 1));
    } else {
      lane.Reduce(Data(0), Scratch(0, 1), Scratch(0));
    }
    const auto compiled = Compile(builder.Build()).value();
    EXPECT_THAT(compiled.ops(), SizeIs(2));
    EXPECT_THAT(compiled.scratch(), ElementsAre(Scratch(0, 1)));
  }
}

TEST(CompiledScheduleTest, AReceiveOfARangeIsFusedIfNoOtherStepReadsAnyOfIt) {
  for (const int other : {0, 1, 2, 3}) {
    ScheduleBuilder builder(4);
    auto lane = builder.AddLane();
    lane.Recv(0, 0, Scratch(1, /*bank=*/0, /*num_chunks=*/2));
    lane.Reduce(Data(1, 2), Scratch(1, 0, 2), Input(1, 2));
    lane.Send(0, 1, Scratch(other));
    const auto compiled = Compile(builder.Build()).value();
    const bool is_within = other == 1 || other == 2;
    EXPECT_THAT(compiled.ops(), SizeIs(is_within ? 3 : 2)) << other;
    EXPECT_THAT(compiled.scratch(),
                ElementsAre(is_within ? Scratch(1, 0, 2) : Scratch(other)));
  }
}

TEST(CompiledScheduleTest, RangesOfScratchThatOverlapAreOne) {
  ScheduleBuilder builder(8);
  auto lane = builder.AddLane();
  lane.Copy(Scratch(3, /*bank=*/0, /*num_chunks=*/3), Input(3, 3));
  lane.Copy(Scratch(1, 0, 3), Input(1, 3));
  lane.Copy(Scratch(2), Input(2));
  lane.Copy(Scratch(6), Input(6));
  lane.Copy(Scratch(4, 1, 2), Input(4, 2));
  const auto compiled = Compile(builder.Build()).value();
  EXPECT_THAT(compiled.scratch(),
              ElementsAre(Scratch(1, 0, 5), Scratch(6), Scratch(4, 1, 2)));
}

TEST(CompiledScheduleTest, SlotsOfAStepHaveEquallyManyChunks) {
  ScheduleBuilder builder(4);
  builder.AddLane().Copy(Data(1, 2), Input(1, 3));
  EXPECT_THAT(Compile(builder.Build()), IsInvalidArgument(kNoSize));
}

TEST(CompiledScheduleTest, AStepMayNotWriteAPartOfAnOperand) {
  ScheduleBuilder builder(kSize);
  builder.AddLane().Copy(Data(1, 2), Data(2, 2));
  EXPECT_THAT(Compile(builder.Build(), CollectiveType::kAllGather),
              IsInvalidArgument("writes a part of an operand"));
}

TEST(CompiledScheduleTest, EqualBlocksMayBeCombinedAndUnevenOnesMayNot) {
  ScheduleBuilder builder(kSize);
  builder.AddLane().Copy(Data(0), Input(kRank));
  const Schedule schedule = builder.Build();
  GroupMemory memory = {.type = CollectiveType::kAllGather,
                        .num_ranks = kSize,
                        .num_chunks = kSize,
                        .in_place = std::vector<bool>(kSize)};
  EXPECT_THAT(CompiledSchedule::Compile(schedule, memory, kRank), IsOk());
  memory.uneven = true;
  EXPECT_THAT(CompiledSchedule::Compile(schedule, memory, kRank),
              IsInvalidArgument(kNoSize));
}

TEST(CompiledScheduleTest, ANumberOfChunksThatDoesNotFitIsInvalid) {
  EXPECT_THAT(
      Compile(ScheduleBuilder(kSize + 1).Build(), CollectiveType::kAllGather),
      IsInvalidArgument("5 chunks"));
}

TEST(CompiledScheduleTest, StepsThatWaitForEachOtherAreInvalidAndOneIsNamed) {
  const Step send = {.kind = StepKind::kSend, .left = Input(0), .peer = 0};
  Schedule schedule = {.lanes = {{send, send}, {send, send}}};
  schedule.lanes[0][0].after = {1, 1};
  ASSERT_THAT(Compile(schedule), IsOk());
  schedule.lanes[1][0].after = {0, 1};
  EXPECT_THAT(Compile(schedule), IsInvalidArgument("step 0.0", "after 1.1",
                                                   "wait for each other"));
}

TEST(CompiledScheduleTest, AStepThatWaitsForALaterOneOfItsLaneIsInvalid) {
  const Step send = {.kind = StepKind::kSend, .left = Input(0), .peer = 0};
  Schedule schedule = {.lanes = {{send, send, send}}};
  for (int after : {1, 2}) {
    schedule.lanes[0][1].after = {0, after};
    EXPECT_THAT(Compile(schedule),
                IsInvalidArgument("step 0.1", "wait for each other"));
  }
}

struct BadStep {
  std::string name;
  Step step;
  std::string problem;
  CollectiveType type = CollectiveType::kAllReduce;
};

class BadStepTest : public testing::TestWithParam<BadStep> {};

TEST_P(BadStepTest, IsInvalidAndNamed) {
  const BadStep& bad = GetParam();
  Schedule schedule{.num_chunks = kSize};
  const Step fine = {.kind = StepKind::kSend, .left = Input(1), .peer = 0};
  schedule.lanes = {{fine}, {fine, bad.step}};
  EXPECT_THAT(
      Compile(schedule, bad.type),
      IsInvalidArgument("rank 1, step 1.1", ToString(bad.step), bad.problem));
}

Step CopyStep(Slot into, Slot from) {
  return {.kind = StepKind::kCopy, .into = into, .left = from};
}
Step ReduceStep(Slot into, Slot left, Slot right) {
  return {
      .kind = StepKind::kReduce, .into = into, .left = left, .right = right};
}
Step SendStep(int peer, Slot from, StepRef after = {}) {
  return {.kind = StepKind::kSend, .left = from, .peer = peer, .after = after};
}
Step RecvStep(int peer, Slot into) {
  return {.kind = StepKind::kRecv, .into = into, .peer = peer};
}

Step SendStepOfTag(int32_t tag) {
  return {.kind = StepKind::kSend, .left = Input(0), .peer = 0, .tag = tag};
}

constexpr char kNoTag[] = "the tag is negative, or 2^30 or more";
constexpr char kNoPeer[] = "no other rank of the group";
constexpr char kNoChunk[] = "no such chunk";
constexpr char kNoStep[] = "a step that does not exist";

std::vector<BadStep> BadSteps() {
  using enum CollectiveType;
  std::vector<BadStep> all;
  const auto add = [&](const char* name, const Step& step, const char* problem,
                       CollectiveType type = kAllReduce) {
    all.push_back({name, step, problem, type});
  };
  add("PeerItself", SendStep(kRank, Input(0)), kNoPeer);
  add("PeerNegative", SendStep(-1, Input(0)), kNoPeer);
  add("PeerTooLarge", SendStep(kSize, Input(0)), kNoPeer);
  add("PeerFromItself", RecvStep(kRank, Data(0)), kNoPeer);
  add("PeerFromNobody", RecvStep(-1, Data(0)), kNoPeer);
  add("TagNegative", SendStepOfTag(-1), kNoTag);
  add("TagTooLarge", SendStepOfTag(kNumTags), kNoTag);
  add("ChunkSendTooLarge", SendStep(0, Input(kSize)), kNoChunk);
  add("ChunkSendNegative", SendStep(0, Data(-1)), kNoChunk);
  add("ChunkRecvTooLarge", RecvStep(0, Scratch(kSize)), kNoChunk);
  add("ChunkRecvNegativeBank", RecvStep(0, Scratch(0, -1)), kNoChunk);
  add("ChunkCopyFrom", CopyStep(Data(0), Input(kSize)), kNoChunk);
  add("ChunkCopyInto", CopyStep(Data(kSize), Input(0)), kNoChunk);
  add("ChunkReduceInto", ReduceStep(Data(-1), Input(0), Input(0)), kNoChunk);
  add("ChunkReduceLeft", ReduceStep(Data(0), Input(9), Input(0)), kNoChunk);
  add("ChunkReduceRight", ReduceStep(Data(0), Input(0), Input(9)), kNoChunk);
  add("ChunkInputOfAnotherRank", SendStep(0, Input(0)), kNoChunk, kAllGather);
  add("ChunkOutputOfAnotherRank", CopyStep(Data(0), Input(0)), kNoChunk,
      kReduceScatter);
  add("ChunkOutputOfTheRootAlone", CopyStep(Data(0), Input(0)), kNoChunk,
      kReduce);
  // The last chunks of a buffer may be smaller than the first ones.
  add("SizeCopyToAnotherChunk", CopyStep(Data(0), Input(3)), kNoSize);
  add("SizeReduceLeft", ReduceStep(Data(0), Data(3), Input(0)), kNoSize);
  add("SizeReduceRight", ReduceStep(Data(0), Input(0), Data(3)), kNoSize);
  add("SizeReduceIntoScratch", ReduceStep(Scratch(1), Data(0), Data(0)),
      kNoSize);
  add("InputReceived", RecvStep(0, Input(0)), "writes to the input");
  add("InputCopied", CopyStep(Input(0), Data(0)), "writes to the input");
  add("InputReduced", ReduceStep(Input(0), Data(0), Input(0)),
      "writes to the input");
  add("AfterNoLane", SendStep(0, Input(0), {2, 0}), kNoStep);
  add("AfterNoStep", SendStep(0, Input(0), {0, 1}), kNoStep);
  add("AfterNegativeStep", SendStep(0, Input(0), {0, -1}), kNoStep);
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, BadStepTest, testing::ValuesIn(BadSteps()),
                         [](const auto& info) { return info.param.name; });

// --- composition -------------------------------------------------------------

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

// Steps of Receiving() as the first part, for rank 3 and chunk 1.
const std::string kReceivingOne =
    "0.0: recv scratch[1].1 from 3, tag 0\n"
    "0.1: data[1] = input[1] (+) scratch[1].1\n";

// Adds `part`, with one tag, for rank 2 and its peers and one chunk.
void Add(Composition& whole, const Schedule& part, std::vector<int> peers,
         int chunk, bool ends_at_once = false) {
  peers.insert(peers.begin(), 2);
  whole.Add({.schedule = part,
             .ranks = std::move(peers),
             .chunks = {chunk},
             .num_tags = 1,
             .ends_at_once = ends_at_once});
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
    Add(whole, Receiving(), {3}, chunk);
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
  Add(whole, Receiving(), {3}, 1);
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
            "2 chunks\n" + kReceivingOne +
                "1.0: recv scratch[1].3 from 1, tag 1\n"
                "1.1: wait, after 0.1\n"
                "1.2: data[1] = scratch[1].3 (+) scratch[1].4 (+) data[1], "
                "finish, after 2.0\n"
                "2.0: recv scratch[1].4 from 0, tag 1\n");
}

TEST(CompositionTest, APartStartsOnAChunkWhenThePartBeforeHasMadeIt) {
  Composition whole = AllReduceOfFour();
  EXPECT_FALSE(whole.IsInOutput(1));
  Add(whole, Receiving(), {3}, 1);
  EXPECT_TRUE(whole.IsInOutput(1));
  EXPECT_FALSE(whole.IsInOutput(0));
  Add(whole, Sending(), {0}, 1);
  Add(whole, Sending(), {0}, 0);
  // The copy of the chunk to itself is left out.
  EXPECT_EQ(ToString(whole.Build()),
            "2 chunks\n" + kReceivingOne +
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
  Add(whole, Receiving(), {3}, 0);
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
  Add(whole, Receiving(), {3}, 1);
  ScheduleBuilder builder(/*num_chunks=*/1);
  auto lane = builder.AddLane();
  lane.Copy(Data(0), Input(0));
  lane.Send(/*peer=*/1, /*tag=*/0, Data(0));
  Add(whole, builder.Build(), {0}, 1);
  EXPECT_EQ(ToString(whole.Build()), "2 chunks\n" + kReceivingOne +
                                         "1.0: data[1] = data[1], after 0.1\n"
                                         "1.1: send data[1] to 0, tag 1\n");
}

TEST(CompositionTest, WhatEndsAtOnceIsThereWhenAllOfItHasEnded) {
  Composition whole = AllReduceOfFour();
  Add(whole, Receiving(), {3}, 1);
  ScheduleBuilder builder(/*num_chunks=*/1);
  auto lane = builder.AddLane();
  lane.Recv(/*peer=*/1, /*tag=*/0, Scratch(0));
  lane.Reduce(Data(0), Scratch(0), Input(0));
  builder.AddLane().Send(/*peer=*/1, /*tag=*/0, Input(0));
  Add(whole, builder.Build(), {0}, 0, /*ends_at_once=*/true);
  Add(whole, Sending(), {3}, 0);
  EXPECT_EQ(ToString(whole.Build()),
            "2 chunks\n" + kReceivingOne +
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
    Add(whole, Receiving(), {3}, block);
  }
  Add(whole, Sending(), {0}, 3);
  EXPECT_EQ(ToString(whole.Build()),
            "4 chunks\n"
            "0.0: recv scratch[2].1 from 3, tag 0\n"
            "0.1: data[2] = input[2] (+) scratch[2].1\n"
            "1.0: recv scratch[3].3 from 3, tag 1\n"
            "1.1: scratch[3].2 = input[3] (+) scratch[3].3\n"
            "2.0: send scratch[3].2 to 0, tag 2, after 1.1\n"
            "3.0: scratch[3].4 = scratch[3].2, after 1.1\n");
}

}  // namespace schedule_test
}  // namespace tutti
