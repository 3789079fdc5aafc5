#include "schedule/group_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tutti {
namespace group_plan_test {

using testing::HasSubstr;

Step Sends(int peer, int tag, Slot from, StepRef after = {}) {
  return {.kind = StepKind::kSend,
          .left = from,
          .peer = peer,
          .tag = tag,
          .after = after};
}

Step Receives(int peer, int tag, Slot into) {
  return {.kind = StepKind::kRecv, .into = into, .peer = peer, .tag = tag};
}

Step Copies(Slot into, Slot from) {
  return {.kind = StepKind::kCopy, .into = into, .left = from};
}

Schedule Lanes(std::vector<Lane> lanes, int num_chunks = 2) {
  return {.num_chunks = num_chunks, .lanes = std::move(lanes)};
}

absl::StatusOr<GroupPlan> Create(const std::vector<Schedule>& schedules) {
  return GroupPlan::Create({.type = CollectiveType::kAllReduce,
                            .num_ranks = 2,
                            .num_chunks = schedules[0].num_chunks},
                           schedules);
}

void ExpectError(const std::vector<Schedule>& schedules,
                 const std::string& text) {
  const auto plan = Create(schedules);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr(text));
}

// Expects the error `text` if rank 0 runs `step` alone.
void ExpectStepError(const Step& step, const std::string& text) {
  ExpectError({Lanes({{step}}), Lanes({})}, text);
}

TEST(GroupPlanTest, JoinsSendsWithReceivesAndNumbersStepsThrough) {
  const auto plan =
      Create({Lanes({{Copies(Data(1), Input(1)), Sends(1, 5, Input(0))},
                     {Receives(1, 5, Data(0))}}),
              Lanes({{Receives(0, 5, Data(0))}, {Sends(0, 5, Input(0))}})});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->num_steps(), 5);
  EXPECT_EQ(plan->num_lanes(), 4);
  EXPECT_EQ(plan->first_lane(1), 2);
  EXPECT_EQ(plan->partner(0), -1);
  EXPECT_EQ(plan->partner(1), 3);
  EXPECT_EQ(plan->partner(3), 1);
  EXPECT_EQ(plan->partner(2), 4);
  EXPECT_EQ(plan->rank_of(3), 1);
  EXPECT_EQ(plan->Describe(4), "rank 1, 1.0 (send input[0] to 0, tag 5)");
}

TEST(GroupPlanTest, CopyToItselfTouchesNothing) {
  const Schedule copies = Lanes({{Copies(Data(1), Input(1))}});
  const auto plan = GroupPlan::Create({.type = CollectiveType::kAllReduce,
                                       .num_ranks = 2,
                                       .num_chunks = 2,
                                       .in_place = {true, false}},
                                      {copies, copies});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->AccessesOf(0).writes, testing::IsEmpty());
  EXPECT_THAT(plan->AccessesOf(0).reads, testing::IsEmpty());
  EXPECT_THAT(plan->AccessesOf(1).writes, testing::ElementsAre(Data(1)));
}

TEST(GroupPlanTest, AReductionReadsAllItsOperands) {
  Step reduce = {.kind = StepKind::kReduce,
                 .into = Data(0),
                 .left = Input(0),
                 .right = Scratch(0),
                 .more = {Scratch(0, 1), Data(0)}};
  const Schedule first = Lanes({{reduce, {.kind = StepKind::kWait}}});
  const GroupMemory memory = {
      .type = CollectiveType::kAllReduce, .num_ranks = 2, .num_chunks = 2};
  const auto plan = GroupPlan::Create(memory, {first, Lanes({})});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(
      plan->AccessesOf(0).reads,
      testing::ElementsAre(Input(0), Scratch(0), Scratch(0, 1), Data(0)));
  EXPECT_TRUE(plan->AccessesOf(1).reads.empty());
  EXPECT_TRUE(plan->AccessesOf(1).writes.empty());

  reduce.more[1] = Input(1);
  ExpectStepError(reduce, "combines data[0] and input[1], which may differ");
}

TEST(GroupPlanTest, RejectsPeersThatAreNotThere) {
  ExpectStepError(Sends(2, 0, Input(0)),
                  "rank 0, 0.0 (send input[0] to 2, tag 0) has a peer outside");
  ExpectStepError(Receives(-1, 0, Data(0)), "has a peer outside 0..1");
}

TEST(GroupPlanTest, RejectsSendingToOneself) {
  ExpectStepError(Sends(0, 0, Input(0)), "is its own peer");
}

TEST(GroupPlanTest, RejectsTagsThatAreOutOfBounds) {
  ExpectStepError(Sends(1, -1, Input(0)), "has a tag outside 0..1073741823");
  ExpectStepError(Sends(1, kNumTags, Input(0)), "has a tag outside");
}

TEST(GroupPlanTest, RejectsSlotsTheRankDoesNotHave) {
  ExpectStepError(Copies(Data(2), Input(1)), "uses data[2]");
  ExpectStepError(Copies(Data(1), Input(-1)), "uses input[-1]");
  ExpectStepError(Copies(Scratch(1, -1), Input(1)), "uses scratch[1].-1");
}

TEST(GroupPlanTest, RejectsWritingTheInput) {
  ExpectStepError(Copies(Input(0), Data(0)), "writes the input");
}

TEST(GroupPlanTest, RejectsWritingAPartOfAnOperand) {
  const GroupMemory memory = {
      .type = CollectiveType::kAllGather, .num_ranks = 3, .num_chunks = 3};
  std::vector<Schedule> schedules(3, Lanes({}, 3));
  schedules[0] = Lanes({{Copies(Data(0, 2), Data(0, 2))}}, 3);
  EXPECT_TRUE(GroupPlan::Create(memory, schedules).ok());
  schedules[0] = Lanes({{Copies(Data(0, 2), Data(1, 2))}}, 3);
  EXPECT_THAT(
      std::string(GroupPlan::Create(memory, schedules).status().message()),
      HasSubstr("writes data[0-1], a part of data[1-2]"));
}

TEST(GroupPlanTest, RejectsCombiningChunksOfDifferentSize) {
  ExpectStepError(Copies(Data(0), Input(1)), "may differ in size");
  ExpectStepError(Copies(Data(0, 2), Input(0)), "may differ in size");
  ExpectError(
      {Lanes({{Sends(1, 0, Input(0))}}), Lanes({{Receives(0, 0, Data(1))}})},
      "may differ in size from rank 0, 0.0");
}

TEST(GroupPlanTest, RejectsTheFinalOpOnATransfer) {
  Step step = Receives(1, 0, Data(0));
  step.finish = true;
  ExpectStepError(step, "cannot apply the final op");
}

TEST(GroupPlanTest, RejectsWaitingForStepsThatAreNotThere) {
  ExpectStepError(Sends(1, 0, Input(0), {.lane = 1, .step = 0}),
                  "waits for a step that does not exist");
  ExpectStepError(Sends(1, 0, Input(0), {.lane = 0, .step = 1}),
                  "waits for a step that does not exist");
  ExpectStepError(Sends(1, 0, Input(0), {.lane = 0, .step = -1}),
                  "waits for a step that does not exist");
}

TEST(GroupPlanTest, RejectsWaitingForOneself) {
  ExpectStepError(Sends(1, 0, Input(0), {.lane = 0, .step = 0}),
                  "waits for itself");
}

TEST(GroupPlanTest, RejectsTransfersWithoutPartner) {
  ExpectStepError(Sends(1, 3, Input(0)),
                  "(send input[0] to 1, tag 3) has no receive with its tag at "
                  "rank 1");
  ExpectStepError(Receives(1, 3, Data(0)), "has no send with its tag");
  ExpectError(
      {Lanes({{Sends(1, 3, Input(0))}}), Lanes({{Receives(0, 4, Data(0))}})},
      "has no receive with its tag");
}

TEST(GroupPlanTest, RejectsATagUsedTwiceInOneDirection) {
  const Lane sends = {Sends(1, 3, Input(0)), Sends(1, 3, Input(0))};
  ExpectError({Lanes({sends}), Lanes({{Receives(0, 3, Data(0))}})},
              "rank 0, 0.1 (send input[0] to 1, tag 3) uses the tag of rank 0, "
              "0.0");
  const Lane receives = {Receives(0, 3, Data(0)), Receives(0, 3, Data(0))};
  ExpectError({Lanes({{Sends(1, 3, Input(0))}}), Lanes({receives})},
              "uses the tag of rank 1, 0.0");
}

TEST(GroupPlanTest, RejectsRanksThatCutDifferently) {
  ExpectError({Lanes({}, 2), Lanes({}, 3)}, "rank 1 cuts into 3 chunks");
}

TEST(GroupPlanTest, RejectsAMissingSchedule) {
  ExpectError({Lanes({})}, "1 schedules for 2 ranks");
}

}  // namespace group_plan_test
}  // namespace tutti
