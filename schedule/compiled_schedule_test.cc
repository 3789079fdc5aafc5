#include "schedule/compiled_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "schedule/group_memory.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/schedule.h"

namespace tutti {
namespace compiled_schedule_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

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
  const auto compiled = Compile(ScheduleBuilder(3).Build());
  ASSERT_THAT(compiled, IsOk());
  EXPECT_EQ(compiled->num_chunks(), 3);
  EXPECT_THAT(compiled->ops(), IsEmpty());
  EXPECT_THAT(compiled->roots(), IsEmpty());
  EXPECT_THAT(compiled->scratch(), IsEmpty());
}

TEST(CompiledScheduleTest, AnOpIsItsStep) {
  ScheduleBuilder builder(2);
  auto lane = builder.AddLane();
  lane.Send(/*peer=*/2, /*tag=*/7, Input(1));
  lane.Recv(/*peer=*/3, /*tag=*/8, Data(0));
  lane.ReduceAndFinish(Data(1), Scratch(1), Input(1));
  const auto compiled = Compile(builder.Build());
  ASSERT_THAT(compiled, IsOk());
  ASSERT_THAT(compiled->ops(), SizeIs(3));
  const Op& send = compiled->ops()[0];
  EXPECT_EQ(send.kind, StepKind::kSend);
  EXPECT_EQ(send.left, Input(1));
  EXPECT_EQ(send.peer, 2);
  EXPECT_EQ(send.tag, 7);
  const Op& recv = compiled->ops()[1];
  EXPECT_EQ(recv.kind, StepKind::kRecv);
  EXPECT_EQ(recv.into, Data(0));
  EXPECT_EQ(recv.peer, 3);
  EXPECT_EQ(recv.tag, 8);
  EXPECT_EQ(recv.incoming, Incoming::kNone);
  EXPECT_FALSE(recv.finish);
  const Op& reduce = compiled->ops()[2];
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
  const auto compiled = Compile(builder.Build());
  ASSERT_THAT(compiled, IsOk());
  // A reduction of more than two operands is not fused with a receive.
  ASSERT_THAT(compiled->ops(), SizeIs(3));
  EXPECT_EQ(compiled->ops()[0].incoming, Incoming::kNone);
  const Op& first = compiled->ops()[1];
  EXPECT_EQ(first.left, Scratch(1, 4));
  EXPECT_EQ(first.right, Input(1));
  EXPECT_THAT(compiled->more(first), ElementsAre(Scratch(1, 5), Data(1)));
  EXPECT_THAT(compiled->more(compiled->ops()[2]), ElementsAre(Scratch(0, 1)));
  EXPECT_THAT(compiled->scratch(),
              UnorderedElementsAre(Scratch(1, 4), Scratch(1, 5), Scratch(0),
                                   Scratch(0, 1)));
}

TEST(CompiledScheduleTest, AnyOperandMustBeThere) {
  ScheduleBuilder builder(2);
  builder.AddLane().ReduceMany(Data(0), {Input(0), Input(0), Input(2)});
  EXPECT_THAT(Compile(builder.Build()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("data[0] = input[0] (+) input[0] (+) "
                                 "input[2]): this rank has no such chunk")));
}

TEST(CompiledScheduleTest, AWaitMakesTheStepsBehindItWait) {
  ScheduleBuilder builder(1);
  auto waiting = builder.AddLane();
  const StepRef first = builder.AddLane().Recv(2, 0, Scratch(0, 1));
  const StepRef second = builder.AddLane().Recv(3, 0, Scratch(0, 2));
  waiting.Wait(first);
  waiting.Copy(Data(0), Scratch(0, 1), second);
  const auto compiled = Compile(builder.Build());
  ASSERT_THAT(compiled, IsOk());
  EXPECT_THAT(compiled->roots(), UnorderedElementsAre(2, 3));
  EXPECT_EQ(compiled->ops()[0].num_waits, 1);
  EXPECT_EQ(compiled->ops()[1].num_waits, 2);
  EXPECT_THAT(compiled->dependents(compiled->ops()[0]), ElementsAre(1));
}

TEST(CompiledScheduleTest, AStepWaitsForTheOneBeforeItInItsLane) {
  ScheduleBuilder builder(1);
  for (int i = 0; i < 2; ++i) {
    auto lane = builder.AddLane();
    lane.Copy(Data(0), Input(0));
    lane.Send(0, i, Data(0));
  }
  const auto compiled = Compile(builder.Build());
  ASSERT_THAT(compiled, IsOk());
  EXPECT_THAT(compiled->roots(), ElementsAre(0, 2));
  EXPECT_THAT(DependentsOf(*compiled, 0), ElementsAre(1));
  EXPECT_THAT(DependentsOf(*compiled, 1), IsEmpty());
  EXPECT_THAT(DependentsOf(*compiled, 2), ElementsAre(3));
  EXPECT_EQ(compiled->ops()[0].num_waits, 0);
  EXPECT_EQ(compiled->ops()[3].num_waits, 1);
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
  const auto compiled = Compile(builder.Build());
  ASSERT_THAT(compiled, IsOk());
  EXPECT_THAT(compiled->roots(), ElementsAre(0, 2));
  EXPECT_THAT(DependentsOf(*compiled, 0), UnorderedElementsAre(1, 3, 4));
  EXPECT_EQ(compiled->ops()[3].num_waits, 2);
  EXPECT_EQ(compiled->ops()[4].num_waits, 1);
}

// Counts the wait twice, and the step's completion counts twice as well.
TEST(CompiledScheduleTest, AStepMayWaitForTheOneBeforeItByNameToo) {
  ScheduleBuilder builder(1);
  auto lane = builder.AddLane();
  const StepRef copied = lane.Copy(Data(0), Input(0));
  lane.Send(0, 0, Data(0), copied);
  const auto compiled = Compile(builder.Build());
  ASSERT_THAT(compiled, IsOk());
  EXPECT_EQ(static_cast<size_t>(compiled->ops()[1].num_waits),
            DependentsOf(*compiled, 0).size());
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
    const auto compiled =
        Compile(is_left ? RecvAndReduce(Scratch(0), Input(0))
                        : RecvAndReduce(Input(0), Scratch(0)));
    ASSERT_THAT(compiled, IsOk());
    ASSERT_THAT(KindsOf(*compiled),
                ElementsAre(StepKind::kRecv, StepKind::kSend));
    const Op& fused = compiled->ops()[0];
    EXPECT_EQ(fused.incoming, is_left ? Incoming::kLeft : Incoming::kRight);
    EXPECT_EQ(fused.into, Data(0));
    EXPECT_EQ(is_left ? fused.right : fused.left, Input(0));
    EXPECT_EQ(fused.peer, 0);
    EXPECT_EQ(fused.tag, 5);
    EXPECT_TRUE(fused.finish);
    EXPECT_THAT(DependentsOf(*compiled, 0), ElementsAre(1));
    EXPECT_THAT(compiled->scratch(), IsEmpty());
  }
}

TEST(CompiledScheduleTest, WhoWaitsForAFusedStepWaitsForTheWhole) {
  for (int step = 0; step < 2; ++step) {
    Schedule schedule = RecvAndReduce(Scratch(0), Input(0));
    schedule.lanes.push_back({{.kind = StepKind::kSend,
                               .left = Data(0),
                               .peer = 2,
                               .after = {.lane = 0, .step = step}}});
    const auto compiled = Compile(schedule);
    ASSERT_THAT(compiled, IsOk());
    EXPECT_THAT(DependentsOf(*compiled, 0), UnorderedElementsAre(1, 2));
  }
}

TEST(CompiledScheduleTest, AFusedReceiveMayWaitForAnotherLane) {
  Schedule schedule = RecvAndReduce(Scratch(0), Input(0));
  schedule.lanes.push_back(
      {{.kind = StepKind::kCopy, .into = Scratch(0, 1), .left = Input(0)}});
  schedule.lanes[0][0].after = {.lane = 1, .step = 0};
  const auto compiled = Compile(schedule);
  ASSERT_THAT(compiled, IsOk());
  EXPECT_EQ(compiled->ops()[0].incoming, Incoming::kLeft);
  EXPECT_EQ(compiled->ops()[0].num_waits, 1);
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
  const auto compiled = Compile(schedule);
  ASSERT_THAT(compiled, IsOk());
  size_t num_steps = 0;
  for (const Lane& lane : schedule.lanes) num_steps += lane.size();
  EXPECT_THAT(compiled->ops(), SizeIs(num_steps));
  for (const Op& op : compiled->ops()) {
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
  const auto compiled = Compile(builder.Build());
  ASSERT_THAT(compiled, IsOk());
  EXPECT_THAT(compiled->scratch(),
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
    const auto compiled = Compile(builder.Build());
    ASSERT_THAT(compiled, IsOk());
    EXPECT_THAT(compiled->ops(), SizeIs(2));
    EXPECT_THAT(compiled->scratch(), ElementsAre(Scratch(0, 1)));
  }
}

TEST(CompiledScheduleTest, AReceiveOfARangeIsFusedIfNoOtherStepReadsAnyOfIt) {
  for (const int other : {0, 1, 2, 3}) {
    ScheduleBuilder builder(4);
    auto lane = builder.AddLane();
    lane.Recv(0, 0, Scratch(1, /*bank=*/0, /*num_chunks=*/2));
    lane.Reduce(Data(1, 2), Scratch(1, 0, 2), Input(1, 2));
    lane.Send(0, 1, Scratch(other));
    const auto compiled = Compile(builder.Build());
    ASSERT_THAT(compiled, IsOk());
    const bool is_within = other == 1 || other == 2;
    EXPECT_THAT(compiled->ops(), SizeIs(is_within ? 3 : 2)) << other;
    EXPECT_THAT(compiled->scratch(),
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
  const auto compiled = Compile(builder.Build());
  ASSERT_THAT(compiled, IsOk());
  EXPECT_THAT(compiled->scratch(),
              ElementsAre(Scratch(1, 0, 5), Scratch(6), Scratch(4, 1, 2)));
}

TEST(CompiledScheduleTest, SlotsOfAStepHaveEquallyManyChunks) {
  ScheduleBuilder builder(4);
  builder.AddLane().Copy(Data(1, 2), Input(1, 3));
  EXPECT_THAT(Compile(builder.Build()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(kNoSize)));
}

TEST(CompiledScheduleTest, AStepMayNotWriteAPartOfAnOperand) {
  ScheduleBuilder builder(kSize);
  builder.AddLane().Copy(Data(1, 2), Data(2, 2));
  EXPECT_THAT(Compile(builder.Build(), CollectiveType::kAllGather),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("writes a part of an operand")));
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
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(kNoSize)));
}

TEST(CompiledScheduleTest, ANumberOfChunksThatDoesNotFitIsInvalid) {
  EXPECT_THAT(
      Compile(ScheduleBuilder(kSize + 1).Build(), CollectiveType::kAllGather),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("5 chunks")));
}

TEST(CompiledScheduleTest, StepsThatWaitForEachOtherAreInvalidAndOneIsNamed) {
  const Step send = {.kind = StepKind::kSend, .left = Input(0), .peer = 0};
  Schedule schedule = {.lanes = {{send, send}, {send, send}}};
  schedule.lanes[0][0].after = {1, 1};
  ASSERT_THAT(Compile(schedule), IsOk());
  schedule.lanes[1][0].after = {0, 1};
  EXPECT_THAT(Compile(schedule),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("step 0.0"), HasSubstr("after 1.1"),
                             HasSubstr("wait for each other"))));
}

TEST(CompiledScheduleTest, AStepThatWaitsForALaterOneOfItsLaneIsInvalid) {
  const Step send = {.kind = StepKind::kSend, .left = Input(0), .peer = 0};
  Schedule schedule = {.lanes = {{send, send, send}}};
  for (int after : {1, 2}) {
    schedule.lanes[0][1].after = {0, after};
    EXPECT_THAT(Compile(schedule),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("step 0.1"),
                               HasSubstr("wait for each other"))));
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
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("rank 1, step 1.1"),
                     HasSubstr(ToString(bad.step)), HasSubstr(bad.problem))));
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

INSTANTIATE_TEST_SUITE_P(
    Peer, BadStepTest,
    testing::Values(BadStep{"Itself", SendStep(kRank, Input(0)), kNoPeer},
                    BadStep{"Negative", SendStep(-1, Input(0)), kNoPeer},
                    BadStep{"TooLarge", SendStep(kSize, Input(0)), kNoPeer},
                    BadStep{"FromItself", RecvStep(kRank, Data(0)), kNoPeer},
                    BadStep{"FromNobody", RecvStep(-1, Data(0)), kNoPeer}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Tag, BadStepTest,
    testing::Values(BadStep{"Negative", SendStepOfTag(-1), kNoTag},
                    BadStep{"TooLarge", SendStepOfTag(kNumTags), kNoTag}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Chunk, BadStepTest,
    testing::Values(
        BadStep{"SendTooLarge", SendStep(0, Input(kSize)), kNoChunk},
        BadStep{"SendNegative", SendStep(0, Data(-1)), kNoChunk},
        BadStep{"RecvTooLarge", RecvStep(0, Scratch(kSize)), kNoChunk},
        BadStep{"RecvNegativeBank", RecvStep(0, Scratch(0, -1)), kNoChunk},
        BadStep{"CopyFrom", CopyStep(Data(0), Input(kSize)), kNoChunk},
        BadStep{"CopyInto", CopyStep(Data(kSize), Input(0)), kNoChunk},
        BadStep{"ReduceInto", ReduceStep(Data(-1), Input(0), Input(0)),
                kNoChunk},
        BadStep{"ReduceLeft", ReduceStep(Data(0), Input(9), Input(0)),
                kNoChunk},
        BadStep{"ReduceRight", ReduceStep(Data(0), Input(0), Input(9)),
                kNoChunk},
        BadStep{"InputOfAnotherRank", SendStep(0, Input(0)), kNoChunk,
                CollectiveType::kAllGather},
        BadStep{"OutputOfAnotherRank", CopyStep(Data(0), Input(0)), kNoChunk,
                CollectiveType::kReduceScatter},
        BadStep{"OutputOfTheRootAlone", CopyStep(Data(0), Input(0)), kNoChunk,
                CollectiveType::kReduce}),
    [](const auto& info) { return info.param.name; });

// The last chunks of a buffer may be smaller than the first ones.
INSTANTIATE_TEST_SUITE_P(
    Size, BadStepTest,
    testing::Values(
        BadStep{"CopyToAnotherChunk", CopyStep(Data(0), Input(3)), kNoSize},
        BadStep{"ReduceLeft", ReduceStep(Data(0), Data(3), Input(0)), kNoSize},
        BadStep{"ReduceRight", ReduceStep(Data(0), Input(0), Data(3)), kNoSize},
        BadStep{"ReduceIntoScratch", ReduceStep(Scratch(1), Data(0), Data(0)),
                kNoSize}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Input, BadStepTest,
    testing::Values(
        BadStep{"Received", RecvStep(0, Input(0)), "writes to the input"},
        BadStep{"Copied", CopyStep(Input(0), Data(0)), "writes to the input"},
        BadStep{"Reduced", ReduceStep(Input(0), Data(0), Input(0)),
                "writes to the input"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    After, BadStepTest,
    testing::Values(BadStep{"NoLane", SendStep(0, Input(0), {2, 0}), kNoStep},
                    BadStep{"NoStep", SendStep(0, Input(0), {0, 1}), kNoStep},
                    BadStep{"NegativeStep", SendStep(0, Input(0), {0, -1}),
                            kNoStep}),
    [](const auto& info) { return info.param.name; });

}  // namespace compiled_schedule_test
}  // namespace tutti
