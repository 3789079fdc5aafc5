// The executions and instances of a step, and when the table forgets them.

#include "framework/executor/execution_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/collective/group_resources.h"
#include "framework/collective/params_test_data.h"
#include "framework/executor/execution_table_testing.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"

namespace tutti {
namespace execution_table_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// ---- Which execution a call joins; which run or have launched ----

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
  ASSERT_NE(other_group.execution, nullptr);
  EXPECT_NE(other_group.execution, first.get());
  EXPECT_EQ(other_group.execution->number, 0u);
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
      table_.Join(&a_, Request(7), 5, NoOwner).status,
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
  EXPECT_THAT(without.status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("by execution number before, but not now")));
  EXPECT_EQ(without.execution->number, 5u);
  EXPECT_THAT(table_.Join(&a_, Request(7), 5, NoOwner).status,
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("5")));
  Join(a_, 8);
  const auto with = table_.Join(&a_, Request(8), 5, NoOwner);
  EXPECT_THAT(with.status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("by execution number now, but not before")));
  EXPECT_EQ(with.execution->number, 1u);
  EXPECT_EQ(Join(a_, 8)->number, 2u);
}

TEST_F(ExecutionTableTest, NoNumberAfterTheLastThatCanBeNamedIsRefused) {
  Join(a_, 7, (uint64_t{1} << 63) - 1);
  EXPECT_THAT(table_.Join(&a_, Request(7), std::nullopt, NoOwner).status,
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
  EXPECT_THAT(table_.Join(&a_, Request(7), 5, NoOwner).status,
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("5")));
}

TEST_F(ExecutionTableTest, ANumberThatIsRefusedLeavesNothing) {
  for (InstanceKey instance = 0; instance < 100; ++instance) {
    EXPECT_THAT(
        table_.Join(&a_, Request(instance), ~uint64_t{0}, NoOwner).status,
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr("by execution number 18446744073709551615, "
                           "wanted less than")));
  }
  EXPECT_EQ(table_.num_instances(), 0u);
}

TEST_F(ExecutionTableTest, NumbersOfPreparationsCannotBeNamed) {
  EXPECT_THAT(table_.Join(&a_, Request(7), uint64_t{1} << 63, NoOwner).status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("wanted less than 9223372036854775808")));
}

TEST_F(ExecutionTableTest, ADeviceOfAnotherProcessIsRefusedAndLeavesNothing) {
  ExecutionTable table(kStep, /*num_local_devices=*/1, kMaxEntries,
                       [this](const Device* device) { return device == &a_; });
  EXPECT_THAT(
      table.Join(&b_, Request(7), std::nullopt, NoOwner).status,
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(b_.full_name())));
  EXPECT_THAT(
      table.JoinPreparation(&b_, Request(7), NoOwner).status,
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("manager")));
  EXPECT_EQ(table.num_instances(), 0u);
  EXPECT_NE(table.Join(&a_, Request(7), std::nullopt, NoOwner).execution,
            nullptr);
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
  ASSERT_NE(other.execution, nullptr);
  EXPECT_THAT(
      table_.Running(),
      UnorderedElementsAre(one, two, ExecutionTable::Share(*other.execution)));
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
          table_.Join(&device, Request(key), std::nullopt, NoOwner).execution;
      ++execution->num_launched;
      table_.HasLaunched(execution->id, execution->number);
      joined->push_back(ExecutionTable::Share(*execution));
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

// ---- The life of an execution, and of the owner, as members leave ----

TEST_F(ExecutionTableTest, OnlyMembersOfThisProcessAreWaitedFor) {
  const auto execution = Join(a_, 7);
  Settle(a_, *execution, /*num_local=*/1);
  table_.Leave(*execution, {});
  EXPECT_THAT(table_.Running(), IsEmpty());
}

TEST_F(ExecutionTableTest, AnExecutionThatAllHaveLeftIsUsedAgain) {
  const auto group = GroupOf(2);
  RunOnceIn(group, 7);
  const auto run = [&] {
    const auto execution = Join(a_, 7);
    EXPECT_EQ(Join(b_, 7), execution);
    EXPECT_EQ(execution->num_launched, 0u);
    execution->num_launched = 2;
    for (int i = 0; i < 2; ++i) table_.Leave(*execution, {});
    EXPECT_TRUE(table_.HasLaunched({1, 7}, execution->number));
    return execution.get();
  };
  const Execution* const second = run();
  EXPECT_EQ(run(), second);
  EXPECT_EQ(second->number, 2u);
  // A held execution may still fail, and is not used again.
  const auto held = Join(a_, 7);
  Join(b_, 7);
  for (int i = 0; i < 2; ++i) table_.Leave(*held, {});
  EXPECT_NE(run(), held.get());
  // Failed executions are not used again.
  {
    const auto execution = Join(a_, 7);
    Join(b_, 7);
    execution->cancellation.Cancel(absl::AbortedError("failed"));
    for (int i = 0; i < 2; ++i) table_.Leave(*execution, {});
  }
  const auto next = Join(a_, 7);
  EXPECT_FALSE(next->cancellation.cancelled());
}

TEST_F(ExecutionTableTest, APreparationEndsWithThoseThatCameUnlessItFailed) {
  for (int i = 0; i < 3; ++i) {
    const auto alone =
        table_.JoinPreparation(&a_, Request(7), NoOwner).execution;
    EXPECT_EQ(table_.Running().size(), 1u);
    table_.Leave(*alone, {});
    EXPECT_THAT(table_.Running(), IsEmpty());
  }
  const auto failed =
      table_.JoinPreparation(&a_, Request(7), NoOwner).execution;
  failed->cancellation.Cancel(absl::AbortedError("failed"));
  table_.Leave(*failed, {});
  for (int i = 0; i < 3; ++i) table_.JoinPreparation(&b_, Request(7), NoOwner);
  EXPECT_EQ(table_.JoinPreparation(&b_, Request(7), NoOwner).execution, failed);
}

TEST_F(ExecutionTableTest, AMemberThatComesLateFindsTheFailedExecution) {
  const auto execution = Join(a_, 7);
  execution->cancellation.Cancel(absl::AbortedError("why"));
  table_.Leave(*execution, {});
  const auto late = Join(b_, 7);
  EXPECT_EQ(late, execution);
  EXPECT_TRUE(late->cancellation.cancelled());
}

TEST_F(ExecutionTableTest, WhoseRequestIsWrongWaitsForItsGroupAlone) {
  ExecutionTable table(kStep, /*num_local_devices=*/8, kMaxEntries,
                       [](const Device* /*device*/) { return true; });
  CollectiveRequest request = Request(7);
  request.op = Permute{};  // Invalid: sends nothing.
  ASSERT_FALSE(Validate(request).ok());
  for (int i = 0; i < 10; ++i) {
    const auto first = table.Join(&a_, request, std::nullopt, NoOwner);
    const auto second = table.Join(&b_, request, std::nullopt, NoOwner);
    ASSERT_EQ(first.execution, second.execution);
    first.execution->cancellation.Cancel(absl::AbortedError("why"));
    table.Leave(*first.execution, {});
    table.Leave(*first.execution, {});
  }
  EXPECT_THAT(table.Running(), IsEmpty());
}

TEST_F(ExecutionTableTest, TheLastToLeaveAFailedOneGetsTheKey) {
  const auto execution = Join(a_, 7);
  Settle(a_, *execution);
  execution->cancellation.Cancel(absl::AbortedError("why"));
  EXPECT_EQ(table_.Leave(*execution, {}).to_forget, std::nullopt);
  Join(b_, 7);
  EXPECT_EQ(table_.Leave(*execution, {}).to_forget, KeyOf(7, 0));
  EXPECT_THAT(table_.Running(), IsEmpty());
}

TEST_F(ExecutionTableTest, NothingIsToBeForgottenOfOneThatDidNotFail) {
  const auto execution = Join(a_, 7);
  Settle(a_, *execution);
  Join(b_, 7);
  EXPECT_EQ(table_.Leave(*execution, {.num_members = 2}).to_forget,
            std::nullopt);
  EXPECT_THAT(table_.Running(), IsEmpty());
}

TEST_F(ExecutionTableTest, AnExecutionIsNotForgottenWhileItIsCancelled) {
  const auto execution = Join(a_, 7);
  Settle(a_, *execution, /*num_local=*/1);
  execution->cancellation.Cancel(absl::AbortedError("why"));
  EXPECT_EQ(table_.BeginCancel(*execution), KeyOf(7, 0));
  EXPECT_EQ(table_.Leave(*execution, {}).to_forget, std::nullopt);
  EXPECT_EQ(table_.EndCancel(*execution), KeyOf(7, 0));
}

TEST_F(ExecutionTableTest, WhatIsForgottenIsNotCancelledAnyMore) {
  const auto execution = Join(a_, 7);
  Settle(a_, *execution, /*num_local=*/1);
  execution->cancellation.Cancel(absl::AbortedError("why"));
  EXPECT_EQ(table_.Leave(*execution, {}).to_forget, KeyOf(7, 0));
  EXPECT_EQ(table_.BeginCancel(*execution), std::nullopt);
}

TEST_F(ExecutionTableTest, KeepsItsOwnerWhileAMemberIsInAnExecution) {
  auto owner = std::make_shared<int>();
  const std::weak_ptr<int> weak = owner;
  const auto hold = [&owner] { return owner; };
  const auto execution =
      table_.Join(&a_, Request(7), std::nullopt, hold).execution;
  table_.Join(&b_, Request(7), std::nullopt, hold);
  owner.reset();
  table_.Leave(*execution, {});
  EXPECT_FALSE(weak.expired());
  table_.Leave(*execution, {});
  EXPECT_TRUE(weak.expired());
}

// Missing members keep nothing.
TEST_F(ExecutionTableTest, DoesNotKeepItsOwnerForMembersThatAreMissing) {
  auto owner = std::make_shared<int>();
  const std::weak_ptr<int> weak = owner;
  const auto execution =
      table_.Join(&a_, Request(7), std::nullopt, [&owner] { return owner; })
          .execution;
  owner.reset();
  execution->cancellation.Cancel(absl::AbortedError("why"));
  table_.Leave(*execution, {});
  EXPECT_TRUE(weak.expired());
}

// Members that launch by leaving have yet to report the launch.
TEST_F(ExecutionTableTest, WhoLeavesUnlaunchedKeepsTheOwnerToo) {
  const auto owner = std::make_shared<int>();
  const auto hold = [&owner] { return owner; };
  const auto execution =
      table_.Join(&a_, Request(7), std::nullopt, hold).execution;
  table_.Join(&b_, Request(7), std::nullopt, hold);
  EXPECT_EQ(table_.Leave(*execution, {.num_unlaunched = 1}).owner, owner);
  EXPECT_EQ(table_.Leave(*execution, {}).owner, owner);
  EXPECT_EQ(owner.use_count(), 1);
}

// ---- Groups that end and are formed again, in the step that they ran in ----

TEST_F(ExecutionTableTest, TheGenerationIsKnownOnceAMemberIsSettled) {
  const auto execution = Join(a_, 7);
  EXPECT_EQ(table_.BeginCancel(*execution), KeyOf(7, 0, /*generation=*/0));
  Settle(a_, *execution);
  EXPECT_EQ(table_.BeginCancel(*execution), KeyOf(7, 0));
  EXPECT_EQ(table_.BeginCancel(*Join(a_, 7)), KeyOf(7, 1));
}

TEST_F(ExecutionTableTest, ExecutionDoesNotGetTheKeyOfAGroupThatEnded) {
  const auto group = GroupOf(2);
  const auto first = Join(a_, 7);
  ASSERT_THAT(SettleIn(group, a_, *first), IsOk());
  group->cancellation->Cancel(absl::AbortedError("ended"));
  const auto second = Join(a_, 7);
  EXPECT_EQ(table_.BeginCancel(*second), KeyOf(7, 1, /*generation=*/0));
  auto next = std::make_shared<CollGroupParams>(*GroupOf(2));
  next->generation = 2;
  EXPECT_THAT(SettleIn(next, a_, *second), IsOk());
  EXPECT_EQ(table_.BeginCancel(*second), KeyOf(7, 1, /*generation=*/2));
}

TEST_F(ExecutionTableTest, AnExecutionOfAGroupThatEndedIsNotUsedAgain) {
  const auto group = GroupOf(2);
  for (int i = 0; i < 2; ++i) RunOnceIn(group, 7);
  const std::weak_ptr<Execution> last = [&] {
    const auto execution = Join(a_, 7);
    Join(b_, 7);
    for (int i = 0; i < 2; ++i) table_.Leave(*execution, {});
    return execution;
  }();
  ASSERT_FALSE(last.expired());  // Kept to be used again.
  group->cancellation->Cancel(absl::AbortedError("formed again"));
  const auto next = Join(a_, 7);
  EXPECT_TRUE(last.expired());
  EXPECT_EQ(Join(b_, 7), next);
}

// Second member: in another task, which counts its calls there.
TEST_F(ExecutionTableTest, CountsOfTwoGenerationsDoNotMixAcrossTasks) {
  auto next = std::make_shared<CollGroupParams>(*GroupOf(2));
  next->generation = 2;
  Settle(a_, *Join(a_, 7), /*num_local=*/1);
  EXPECT_THAT(SettleIn(next, a_, *Join(a_, 7), /*num_local=*/1),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("ran in generation 1"),
                             HasSubstr("in generation 2"),
                             HasSubstr(absl::StrCat("than ", kStep)))));
  EXPECT_THAT(SettleIn(next, a_, *Join(a_, 8), /*num_local=*/1), IsOk());
}

// Earlier calls were counted here alone.
TEST_F(ExecutionTableTest, AGroupThatGrowsIntoAnotherTaskNeedsAnotherStep) {
  const auto group = GroupOf(2);
  ASSERT_THAT(SettleIn(group, a_, *Join(a_, 7), /*num_local=*/2), IsOk());
  group->cancellation->Cancel(absl::AbortedError("ended"));
  auto next = std::make_shared<CollGroupParams>(*GroupOf(2));
  next->generation = 2;
  EXPECT_THAT(SettleIn(next, a_, *Join(a_, 7), /*num_local=*/1),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("ran in generation 1"),
                             HasSubstr("in generation 2"))));
}

// New members have counted from the end of the others.
TEST_F(ExecutionTableTest,
       AGroupThatGrowsIntoAnotherTaskNeedsAnotherStepForNewMembersToo) {
  const auto group = GroupOf(1);
  const auto execution = Join(a_, 7);
  ASSERT_THAT(SettleIn(group, a_, *execution, /*num_local=*/1), IsOk());
  table_.Leave(*execution, {});
  group->cancellation->Cancel(absl::AbortedError("ended"));
  auto next = std::make_shared<CollGroupParams>(*GroupOf(2));
  next->generation = 2;
  const auto other = Join(b_, 7);
  EXPECT_EQ(other->number, 1u);
  EXPECT_THAT(SettleIn(next, b_, *other, /*num_local=*/1),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("was called by others before"),
                             HasSubstr("in generation 2"))));
}

// Such a member may end the group, but no execution of its members.
TEST_F(ExecutionTableTest, WhoIsNotInTheGroupComesToNoneOfItsExecutions) {
  const auto group = GroupOf(1);
  const auto execution = Join(a_, 7);
  ASSERT_THAT(SettleIn(group, a_, *execution, /*num_local=*/1), IsOk());
  table_.Leave(*execution, {});
  EXPECT_EQ(Join(a_, 7)->number, 1u);
  EXPECT_EQ(Join(b_, 7)->number, 0u);
}

// Given numbers are known to all members.
TEST_F(ExecutionTableTest, NumbersThatAreGivenHoldInTheNextGeneration) {
  const auto group = GroupOf(2);
  ASSERT_THAT(SettleIn(group, a_, *Join(a_, 7, 3), /*num_local=*/1), IsOk());
  group->cancellation->Cancel(absl::AbortedError("ended"));
  auto next = std::make_shared<CollGroupParams>(*GroupOf(2));
  next->generation = 2;
  EXPECT_THAT(SettleIn(next, a_, *Join(a_, 7, 4), /*num_local=*/1), IsOk());
}

TEST_F(ExecutionTableTest, MembersOfTwoGenerationsDoNotShareAnExecution) {
  const auto execution = Join(a_, 7);
  Join(b_, 7);
  Settle(a_, *execution);
  auto next = std::make_shared<CollGroupParams>(*GroupOf(2));
  next->generation = 2;
  EXPECT_THAT(SettleIn(next, b_, *execution),
              StatusIs(absl::StatusCode::kAborted,
                       AllOf(HasSubstr("group 1 was formed again"),
                             HasSubstr("generation 2"))));
}

TEST_F(ExecutionTableTest, AMemberHearsThatItCannotRunWhereAnotherDoes) {
  const auto group = GroupOf(2);
  RunOnceIn(group, 7);
  const auto running = Join(a_, 7);
  // Form the group again, and let the other member prepare in it.
  group->cancellation->Cancel(absl::AbortedError("ended"));
  auto formed_again = std::make_shared<CollGroupParams>(*GroupOf(2));
  formed_again->generation = 2;
  formed_again->cancellation = std::make_shared<Cancellation>();
  const auto preparation =
      table_.JoinPreparation(&b_, Request(7), NoOwner).execution;
  ASSERT_THAT(SettleIn(formed_again, b_, *preparation), IsOk());
  TableMember& member = table_.Hold(&b_, {1, 7});
  absl::Status status;
  EXPECT_EQ(table_.JoinNext(member, NoOwner, &status), running.get());
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted,
                               HasSubstr("others in generation 2")));
  EXPECT_EQ(table_.Join(&b_, Request(7), std::nullopt, NoOwner).status,
            absl::OkStatus());
  table_.Release(member);
}

TEST_F(ExecutionTableTest, AsManyAreExpectedAsTheLastGroupHasHere) {
  const auto first = Join(a_, 7);
  ASSERT_THAT(SettleIn(GroupOf(2), a_, *first, /*num_local=*/1), IsOk());
  table_.Leave(*first, {});
  EXPECT_THAT(table_.Running(), IsEmpty());
  const auto second = Join(a_, 7);
  ASSERT_THAT(SettleIn(GroupOf(2), a_, *second, /*num_local=*/2), IsOk());
  table_.Leave(*second, {});
  EXPECT_THAT(table_.Running(), ElementsAre(second));
}

// ---- Instances that the table forgets, and what it frees ----

TEST_F(ExecutionTableTest, UniqueInstanceKeysDoNotGrowItWithoutBound) {
  for (InstanceKey key = 0; key < 1000; ++key) {
    RunOnce(key);
    EXPECT_LE(table_.num_instances(), 2 * kMaxEntries);
  }
}

TEST_F(ExecutionTableTest, ForgetsWhatWasUsedLongestAgo) {
  for (InstanceKey key = 1; key < 100; ++key) {
    RunOnce(key);
    RunOnce(0);
  }
  EXPECT_EQ(Join(a_, 0)->number, 99u);
  EXPECT_EQ(Join(a_, 99)->number, 1u);
  EXPECT_EQ(Join(a_, 1)->number, 0u);
}

TEST_F(ExecutionTableTest, WhatWasSettledStaysUntilItsReadersHaveLeft) {
  const auto former = std::make_shared<CollGroupParams>(*GroupOf(2));
  RunOnceIn(former, 7);
  auto reading = Join(a_, 7);
  const std::weak_ptr<const SettledFacts> read = settled_->weak_from_this();
  Join(b_, 7);
  former->cancellation->Cancel(absl::AbortedError("ended"));
  auto settling = Join(a_, 7);
  auto next = std::make_shared<CollGroupParams>(*GroupOf(2));
  next->generation = 2;
  ASSERT_THAT(SettleIn(next, a_, *settling), IsOk());
  Join(b_, 7);
  for (int i = 0; i < 2; ++i) table_.Leave(*settling, {});
  settling = nullptr;
  EXPECT_FALSE(read.expired());
  for (int i = 0; i < 2; ++i) table_.Leave(*reading, {});
  reading = nullptr;
  EXPECT_TRUE(read.expired());
}

// Otherwise each of many calls under way would keep the facts of all others.
TEST_F(ExecutionTableTest, TheFactsThatAGroupSettledFirstStay) {
  const std::shared_ptr<const CollGroupParams> group = GroupOf(2);
  const auto first = Join(a_, 7);
  const auto second = Join(a_, 7);
  ASSERT_THAT(SettleIn(group, a_, *first), IsOk());
  Join(a_, 7);
  const SettledFacts* const settled = settled_;
  ASSERT_THAT(SettleIn(group, a_, *second), IsOk());
  Join(a_, 7);
  EXPECT_EQ(settled_, settled);
}

// Otherwise it would keep the resources of every generation of its group.
TEST_F(ExecutionTableTest, AnExecutionThatAMemberNeverJoinsKeepsNoFacts) {
  const auto former = std::make_shared<CollGroupParams>(*GroupOf(2));
  RunOnceIn(former, 7);
  const auto abandoned = Join(a_, 7);
  const std::weak_ptr<const SettledFacts> read = settled_->weak_from_this();
  abandoned->cancellation.Cancel(absl::AbortedError("failed"));
  table_.Leave(*abandoned, {});
  former->cancellation->Cancel(absl::AbortedError("ended"));
  const auto settling = Join(a_, 7);
  auto next = std::make_shared<CollGroupParams>(*GroupOf(2));
  next->generation = 2;
  ASSERT_THAT(SettleIn(next, a_, *settling), IsOk());
  table_.Leave(*settling, {});
  EXPECT_TRUE(read.expired());
}

TEST_F(ExecutionTableTest, AForgottenInstanceIsSettledAgain) {
  for (const Device* device : {&a_, &b_}) {
    const auto execution = Join(*device, 7);
    Settle(*device, *execution);
    table_.Leave(*execution, {});
  }
  for (InstanceKey key = 1000; key < 1100; ++key) RunOnce(key);
  EXPECT_EQ(Join(a_, 7)->number, 0u);
  EXPECT_EQ(settled_, nullptr);
}

TEST_F(ExecutionTableTest, NeverForgetsAnInstanceWithMembersInOtherTasks) {
  const auto execution = Join(a_, 7);
  Settle(a_, *execution, /*num_local=*/1);
  table_.Leave(*execution, {});
  for (InstanceKey key = 1000; key < 1100; ++key) RunOnce(key);
  EXPECT_EQ(Join(a_, 7)->number, 1u);
}

TEST_F(ExecutionTableTest, NeverForgetsWhatWasUsedLately) {
  for (InstanceKey busy = 0; busy < 6; ++busy) Join(a_, busy);
  RunOnce(1000);
  Join(a_, 6);
  Join(a_, 7);  // Exceeds the limit, and only one instance is idle.
  EXPECT_TRUE(table_.HasLaunched({1, 1000}, 0));
}

TEST_F(ExecutionTableTest, NeverForgetsWhatIsDependedUpon) {
  RunOnce(1000);
  CollectiveRequest dependent = Request(1001);
  dependent.impl_details.dependencies = {{1, 1000}};
  ASSERT_NE(table_.Join(&a_, dependent, std::nullopt, NoOwner).execution,
            nullptr);
  for (InstanceKey key = 0; key < 500; ++key) RunOnce(key);
  EXPECT_TRUE(table_.HasLaunched({1, 1000}, 0));
  EXPECT_EQ(Join(a_, 1001)->number, 1u);
}

TEST_F(ExecutionTableTest, InstancesWithAHeldPlaceStay) {
  RunOnce(1);
  TableMember& member = table_.Hold(&b_, {1, 1});
  for (InstanceKey instance = 2; instance < 100; ++instance) RunOnce(instance);
  absl::Status status;
  EXPECT_EQ(table_.JoinNext(member, NoOwner, &status)->number, 1u);
  EXPECT_EQ(Join(a_, 1)->number, 1u);
  table_.Release(member);
}

TEST_F(ExecutionTableTest, NeverForgetsWhatIsBusy) {
  const auto waiting = Join(a_, 1000);
  const auto running = Join(a_, 1001);
  Join(b_, 1001);
  for (InstanceKey key = 0; key < 500; ++key) RunOnce(key);
  EXPECT_EQ(Join(b_, 1000), waiting);
  EXPECT_THAT(table_.Running(), UnorderedElementsAre(waiting, running));
}

TEST_F(ExecutionTableTest, NeverForgetsWhatItsMembersCalledUnevenlyOften) {
  RunOnce(1000);
  // Let one member go a call ahead, in an execution that is given up.
  const auto ahead = Join(a_, 1000);
  Settle(a_, *ahead, /*num_local=*/1);
  table_.Leave(*ahead, {});
  ASSERT_THAT(table_.Running(), IsEmpty());
  for (InstanceKey key = 0; key < 500; ++key) RunOnce(key);
  EXPECT_EQ(Join(b_, 1000)->number, 1u);
}

TEST_F(ExecutionTableTest, FailuresWhileSomebodyIsMissingDoNotGrowIt) {
  std::vector<ExecKey> forgotten;
  for (InstanceKey key = 0; key < 1000; ++key) {
    const auto execution = Join(a_, key);
    forgotten.insert(forgotten.end(), forgotten_.begin(), forgotten_.end());
    Settle(a_, *execution);
    execution->cancellation.Cancel(absl::DeadlineExceededError("late"));
    table_.Leave(*execution, {});
    EXPECT_LE(table_.num_instances(), kMaxEntries);
  }
  EXPECT_GT(forgotten.size(), 900u);
}

TEST_F(ExecutionTableTest, FailuresWithAnotherGroupSizeDoNotKeepIt) {
  CollectiveRequest wrong = Request(1000);
  wrong.group_size = 2;
  ASSERT_NE(table_.Join(&a_, wrong, std::nullopt, NoOwner).execution, nullptr);
  const auto first = table_.Running()[0];
  table_.Leave(*first, {});
  EXPECT_THAT(table_.Running(), ElementsAre(first));
  const auto second = Join(a_, 1000);
  Settle(a_, *second, /*num_local=*/1);
  EXPECT_THAT(table_.Running(), ElementsAre(second));
}

TEST_F(ExecutionTableTest, ManyBusyInstancesAreNotSweptForEachCall) {
  std::vector<std::shared_ptr<Execution>> busy;
  for (InstanceKey key = 0; key < 100; ++key) busy.push_back(Join(a_, key));
  EXPECT_EQ(table_.num_instances(), 100u);
  for (InstanceKey key = 1000; key < 2000; ++key) {
    RunOnce(key);
    EXPECT_LE(table_.num_instances(), kMaxEntries + 2 * busy.size() + 1);
  }
  for (InstanceKey key = 0; key < 100; ++key) {
    EXPECT_EQ(Join(b_, key), busy[key]);
  }
}

// Object kept by an implementation. Its destructor calls the table.
struct RequestsTable {
  RequestsTable() = default;
  explicit RequestsTable(const Cancellation& /*cancellation*/) {}
  ~RequestsTable() {
    if (table != nullptr) *num_instances = table->num_instances();
  }
  RequestsTable(const RequestsTable&) = delete;
  RequestsTable& operator=(const RequestsTable&) = delete;

  ExecutionTable* table = nullptr;
  size_t* num_instances = nullptr;
};

class ExecutionTableFreesTest : public ExecutionTableTest {
 protected:
  void Watch(RequestsTable& object) {
    object.table = &table_;
    object.num_instances = &num_instances_;
  }

  // Keeps an execution of instance 7 to use again. All members of its group
  // have left for another group.
  void LeaveOneOfAFormerGroup() {
    auto former = std::make_shared<CollGroupParams>(*GroupOf(2));
    former->resources = std::make_shared<GroupResources>();
    Watch(*former->resources->GetOrCreate<RequestsTable>());
    RunOnceIn(former, 7);
    auto last = Join(a_, 7);
    Join(b_, 7);
    former->cancellation->Cancel(absl::AbortedError("ended"));
    auto next = std::make_shared<CollGroupParams>(*GroupOf(2));
    next->generation = 2;
    const auto execution =
        table_.JoinPreparation(&a_, Request(7), NoOwner).execution;
    table_.JoinPreparation(&b_, Request(7), NoOwner);
    for (int i = 0; i < 2; ++i) table_.Leave(*last, {});
    last = nullptr;
    ASSERT_THAT(SettleIn(next, a_, *execution), IsOk());
    ASSERT_THAT(SettleIn(next, b_, *execution), IsOk());
    for (int i = 0; i < 2; ++i) table_.Leave(*execution, {});
    former = nullptr;
    ASSERT_EQ(num_instances_, 0u);  // Only the table keeps it.
  }

  size_t num_instances_ = 0;  // Set when the object is freed.
};

TEST_F(ExecutionTableFreesTest, WhatIsNotUsedAgainWithoutItsLock) {
  LeaveOneOfAFormerGroup();
  Join(a_, 7);
  EXPECT_EQ(num_instances_, 1u);
}

TEST_F(ExecutionTableFreesTest, WhatIsForgottenWithoutItsLock) {
  LeaveOneOfAFormerGroup();
  for (InstanceKey key = 1000; key < 1100; ++key) RunOnce(key);
  EXPECT_GT(num_instances_, 0u);
}

TEST_F(ExecutionTableFreesTest,
       WhatEndsAsASmallerGroupIsSettledWithoutItsLock) {
  const auto group = GroupOf(2);
  auto execution = Join(a_, 7);
  Watch(execution->Shared<RequestsTable>());
  ASSERT_THAT(SettleIn(group, a_, *execution), IsOk());
  table_.Leave(*execution, {});
  execution = nullptr;
  group->cancellation->Cancel(absl::AbortedError("ended"));
  auto smaller = std::make_shared<CollGroupParams>(*GroupOf(1));
  smaller->generation = 2;
  ASSERT_THAT(SettleIn(smaller, a_, *Join(a_, 7), /*num_local=*/1), IsOk());
  EXPECT_EQ(num_instances_, 1u);
}

}  // namespace execution_table_test
}  // namespace tutti
