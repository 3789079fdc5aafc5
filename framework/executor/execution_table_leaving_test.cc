// Tests the life of an execution, and of the table's owner, as members leave.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "framework/collective/params_test_data.h"
#include "framework/executor/execution_table.h"
#include "framework/executor/execution_table_testing.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"

namespace tutti {
namespace execution_table_leaving_test {

using testing::IsEmpty;

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
  ExecutionTable table(kStep, /*num_local_devices=*/8, kMaxEntries);
  CollectiveRequest request = Request(7);
  request.op = Permute{};  // Invalid: sends nothing.
  ASSERT_FALSE(Validate(request).ok());
  for (int i = 0; i < 10; ++i) {
    const auto first = table.Join(&a_, request, std::nullopt, NoOwner);
    const auto second = table.Join(&b_, request, std::nullopt, NoOwner);
    ASSERT_EQ(first->execution, second->execution);
    first->execution->cancellation.Cancel(absl::AbortedError("why"));
    table.Leave(*first->execution, {});
    table.Leave(*first->execution, {});
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
      table_.Join(&a_, Request(7), std::nullopt, hold)->execution;
  table_.Join(&b_, Request(7), std::nullopt, hold).value();
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
          ->execution;
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
      table_.Join(&a_, Request(7), std::nullopt, hold)->execution;
  table_.Join(&b_, Request(7), std::nullopt, hold).value();
  EXPECT_EQ(table_.Leave(*execution, {.num_unlaunched = 1}).owner, owner);
  EXPECT_EQ(table_.Leave(*execution, {}).owner, owner);
  EXPECT_EQ(owner.use_count(), 1);
}

}  // namespace execution_table_leaving_test
}  // namespace tutti
