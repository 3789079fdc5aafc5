// Tests which execution a call joins, and which executions run or have
// launched.

#include "framework/executor/execution_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "framework/executor/execution_table_testing.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/implementation.h"

namespace tutti {
namespace execution_table_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST_F(ExecutionTableTest, TheNthCallsOfAllMembersMakeTheNthExecution) {
  const auto first = Join(a_, 7);
  const auto second = Join(a_, 7);
  EXPECT_NE(first, second);
  EXPECT_EQ(first->number, 0u);
  EXPECT_EQ(second->number, 1u);
  EXPECT_EQ(Join(b_, 7), first);
  EXPECT_EQ(Join(b_, 7), second);
  EXPECT_EQ(first->id, (InstanceId{1, 7}));
}

TEST_F(ExecutionTableTest, InstancesAndGroupsAreCountedApart) {
  const auto first = Join(a_, 7);
  EXPECT_EQ(Join(a_, 8)->number, 0u);
  const auto other_group =
      table_.Join(&a_, Request(7, /*group=*/2), std::nullopt, NoOwner);
  ASSERT_THAT(other_group, IsOk());
  EXPECT_NE(other_group->execution, first);
  EXPECT_EQ(other_group->execution->number, 0u);
  EXPECT_EQ(table_.num_instances(), 3u);
}

TEST_F(ExecutionTableTest, AnExecutionMayBeNamedByItsNumber) {
  const auto later = Join(a_, 7, 5);
  EXPECT_EQ(later->number, 5u);
  EXPECT_EQ(Join(a_, 7, 2)->number, 2u);
  EXPECT_EQ(Join(b_, 7, 5), later);
}

TEST_F(ExecutionTableTest, ADeviceThatIsInTheNamedExecutionIsAlreadyExists) {
  Join(a_, 7, 5);
  EXPECT_THAT(
      table_.Join(&a_, Request(7), 5, NoOwner),
      StatusIs(absl::StatusCode::kAlreadyExists,
               AllOf(HasSubstr(a_.full_name()), HasSubstr("execution 5"),
                     HasSubstr("group 1, instance 7"))));
}

// Such a member joins where the others wait for it: they then hear of the
// error.
TEST_F(ExecutionTableTest, AMemberGivesNumbersAlwaysOrNever) {
  Join(a_, 7, 4);
  Join(a_, 7, 3);
  const auto without = table_.Join(&a_, Request(7), std::nullopt, NoOwner);
  ASSERT_THAT(without, IsOk());
  EXPECT_THAT(without->status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("by execution number before, but not now")));
  EXPECT_EQ(without->execution->number, 5u);
  EXPECT_THAT(table_.Join(&a_, Request(7), 5, NoOwner).status(),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("5")));
  Join(a_, 8);
  const auto with = table_.Join(&a_, Request(8), 5, NoOwner);
  ASSERT_THAT(with, IsOk());
  EXPECT_THAT(with->status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("by execution number now, but not before")));
  EXPECT_EQ(with->execution->number, 1u);
  EXPECT_EQ(Join(a_, 8)->number, 2u);
}

TEST_F(ExecutionTableTest, NoNumberAfterTheLastThatCanBeNamedIsRefused) {
  Join(a_, 7, (uint64_t{1} << 63) - 1);
  EXPECT_THAT(table_.Join(&a_, Request(7), std::nullopt, NoOwner).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("by execution number before, but not now")));
  TableMember& member = table_.Hold(&a_, {1, 7});
  absl::Status status;
  EXPECT_EQ(table_.JoinNext(member, NoOwner, &status), nullptr);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("before, but not now")));
  table_.Release(member);
}

TEST_F(ExecutionTableTest, ANumberOfAnEndedExecutionIsAlreadyExists) {
  const auto execution = Join(a_, 7, 5);
  Settle(a_, *execution, /*num_local=*/1);
  table_.Leave(*execution, {});
  EXPECT_THAT(table_.Join(&a_, Request(7), 5, NoOwner),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("5")));
}

TEST_F(ExecutionTableTest, ANumberThatIsRefusedLeavesNothing) {
  for (InstanceKey instance = 0; instance < 100; ++instance) {
    EXPECT_THAT(
        table_.Join(&a_, Request(instance), ~uint64_t{0}, NoOwner).status(),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr("by execution number 18446744073709551615, "
                           "wanted less than")));
  }
  EXPECT_EQ(table_.num_instances(), 0u);
}

TEST_F(ExecutionTableTest, NumbersOfPreparationsCannotBeNamed) {
  EXPECT_THAT(table_.Join(&a_, Request(7), uint64_t{1} << 63, NoOwner),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("wanted less than 9223372036854775808")));
}

TEST_F(ExecutionTableTest, PreparationsAreCountedApart) {
  Join(a_, 7);
  const auto first = table_.JoinPreparation(&a_, Request(7), NoOwner).execution;
  const auto second =
      table_.JoinPreparation(&a_, Request(7), NoOwner).execution;
  EXPECT_NE(first, second);
  EXPECT_EQ(table_.JoinPreparation(&b_, Request(7), NoOwner).execution, first);
  EXPECT_EQ(Join(a_, 7)->number, 1u);
}

TEST_F(ExecutionTableTest, AHeldPlaceJoinsTheNextExecution) {
  const auto first = Join(a_, 7);
  TableMember& member = table_.Hold(&a_, {1, 7});
  absl::Status status;
  const auto second = table_.JoinNext(member, NoOwner, &status);
  EXPECT_THAT(status, IsOk());
  EXPECT_EQ(second->number, 1u);
  EXPECT_EQ(Join(b_, 7), first);
  EXPECT_EQ(Join(b_, 7).get(), second);
  EXPECT_EQ(Join(a_, 7)->number, 2u);
  table_.Release(member);
}

TEST_F(ExecutionTableTest, AHeldPlaceOfAMemberThatGivesNumbersIsInvalid) {
  Join(a_, 7, 5);
  TableMember& member = table_.Hold(&a_, {1, 7});
  absl::Status status;
  EXPECT_EQ(table_.JoinNext(member, NoOwner, &status)->number, 6u);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("by execution number before, but not "
                                         "now")));
  table_.Release(member);
}

TEST_F(ExecutionTableTest, WhatWasSettledIsRememberedForTheNextCalls) {
  const auto first = Join(a_, 7);
  EXPECT_EQ(settled_, nullptr);
  Settle(a_, *first);
  Join(b_, 7);
  EXPECT_EQ(settled_, nullptr);
  Join(a_, 7);
  EXPECT_NE(settled_, nullptr);
}

TEST_F(ExecutionTableTest, KnowsWhoHasJoined) {
  const auto execution = Join(b_, 7);
  EXPECT_THAT(table_.JoinedNames(*execution), ElementsAre(b_.full_name()));
  Join(a_, 7);
  EXPECT_THAT(table_.JoinedNames(*execution),
              UnorderedElementsAre(a_.full_name(), b_.full_name()));
}

TEST_F(ExecutionTableTest, KnowsWhatRunsInAGenerationOfAGroupAndInAll) {
  const auto one = Join(a_, 7);
  const auto two = Join(a_, 7);
  const auto other =
      table_.Join(&a_, Request(7, /*group=*/2), std::nullopt, NoOwner);
  ASSERT_THAT(other, IsOk());
  EXPECT_THAT(table_.Running(),
              UnorderedElementsAre(one, two, other->execution));
  EXPECT_THAT(table_.RunningIn(1, 1), IsEmpty());
  Settle(a_, *one);
  EXPECT_THAT(table_.RunningIn(1, 1), ElementsAre(one));
  EXPECT_THAT(table_.RunningIn(1, 2), IsEmpty());
}

TEST_F(ExecutionTableTest, AnExecutionIsLaunchedOnceAllMembersLaunchedIt) {
  const InstanceId id = {1, 7};
  EXPECT_FALSE(table_.HasLaunched(id, 0));
  const auto execution = Join(a_, 7);
  ++execution->num_launched;
  EXPECT_FALSE(table_.HasLaunched(id, 0));
  Join(b_, 7);
  EXPECT_FALSE(table_.HasLaunched(id, 0));
  ++execution->num_launched;
  EXPECT_TRUE(table_.HasLaunched(id, 0));
  EXPECT_FALSE(table_.HasLaunched(id, 1));
}

// Not all devices of this process are members.
TEST_F(ExecutionTableTest, AnExecutionThatFailedIsLaunchedOnceWhoCameHas) {
  const InstanceId id = {1, 7};
  const auto execution = Join(a_, 7);
  execution->cancellation.Cancel(absl::AbortedError("failed"));
  EXPECT_FALSE(table_.HasLaunched(id, 0));
  ++execution->num_launched;
  EXPECT_TRUE(table_.HasLaunched(id, 0));
  table_.Leave(*execution, {});
  EXPECT_TRUE(table_.HasLaunched(id, 0));
}

TEST_F(ExecutionTableTest, WhatEndedStaysLaunched) {
  RunOnce(7);
  EXPECT_TRUE(table_.HasLaunched({1, 7}, 0));
  EXPECT_FALSE(table_.HasLaunched({1, 7}, 1));
  RunOnce(7);
  EXPECT_TRUE(table_.HasLaunched({1, 7}, 0));
  EXPECT_TRUE(table_.HasLaunched({1, 7}, 1));
}

// Iterations of a loop may begin in any order and at any number.
TEST_F(ExecutionTableTest, NamedExecutionsAreLaunchedEachForItself) {
  const InstanceId id = {1, 7};
  const auto run = [&](uint64_t number) {
    const auto execution = Join(a_, 7, number);
    Join(b_, 7, number);
    EXPECT_FALSE(table_.HasLaunched(id, number));
    execution->num_launched += 2;
    EXPECT_TRUE(table_.HasLaunched(id, number));
    table_.Leave(*execution, {});
    table_.Leave(*execution, {});
    EXPECT_TRUE(table_.HasLaunched(id, number));
  };
  run(2);
  EXPECT_FALSE(table_.HasLaunched(id, 0));
  EXPECT_FALSE(table_.HasLaunched(id, 1));
  run(0);
  EXPECT_FALSE(table_.HasLaunched(id, 1));
  run(1);
  run(1000);
  EXPECT_TRUE(table_.HasLaunched(id, 2));
  EXPECT_FALSE(table_.HasLaunched(id, 3));
}

TEST_F(ExecutionTableTest, WhoLeavesUnlaunchedCountsAsLaunched) {
  const auto execution = Join(a_, 7);
  Settle(a_, *execution);
  Join(b_, 7);
  table_.Leave(*execution, {.num_unlaunched = 1});
  EXPECT_FALSE(table_.HasLaunched(execution->id, 0));
  ++execution->num_launched;
  EXPECT_TRUE(table_.HasLaunched(execution->id, 0));
}

TEST_F(ExecutionTableTest, MembersOnTheirOwnThreadsMeetInEveryExecution) {
  constexpr int kExecutions = 500;
  const auto run = [&](const Device& device,
                       std::vector<std::shared_ptr<Execution>>* joined) {
    for (int i = 0; i < kExecutions; ++i) {
      const InstanceKey key = i % 30;
      const auto execution =
          table_.Join(&device, Request(key), std::nullopt, NoOwner)->execution;
      ++execution->num_launched;
      table_.HasLaunched(execution->id, execution->number);
      joined->push_back(execution);
      table_.Leave(*execution, {});
    }
  };
  std::vector<std::shared_ptr<Execution>> of_a;
  std::vector<std::shared_ptr<Execution>> of_b;
  std::thread thread([&] { run(a_, &of_a); });
  run(b_, &of_b);
  thread.join();
  EXPECT_EQ(of_a, of_b);
  EXPECT_THAT(table_.Running(), IsEmpty());
}

}  // namespace execution_table_test
}  // namespace tutti
