// Tests which instances the table forgets, and what it frees.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "framework/collective/group_resources.h"
#include "framework/collective/params_test_data.h"
#include "framework/executor/execution_table.h"
#include "framework/executor/execution_table_testing.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"

namespace tutti {
namespace execution_table_forgetting_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

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
  ASSERT_THAT(table_.Join(&a_, dependent, std::nullopt, NoOwner), IsOk());
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
  ASSERT_THAT(table_.Join(&a_, wrong, std::nullopt, NoOwner), IsOk());
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
    ASSERT_THAT(SettleIn(next, a_, *execution), IsOk());
    ASSERT_THAT(SettleIn(next, b_, *execution), IsOk());
    for (int i = 0; i < 2; ++i) table_.Leave(*execution, {});
    for (int i = 0; i < 2; ++i) table_.Leave(*last, {});
    settled_ = nullptr;
    ASSERT_EQ(num_instances_, 0u);
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

}  // namespace execution_table_forgetting_test
}  // namespace tutti
