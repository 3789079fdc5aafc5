// Groups that end and are formed again, in the step that they ran in.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/collective/params_test_data.h"
#include "framework/executor/execution_table.h"
#include "framework/executor/execution_table_testing.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"
#include "tutti/params.h"

namespace tutti {
namespace execution_table_generations_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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
  EXPECT_EQ(table_.Join(&b_, Request(7), std::nullopt, NoOwner)->status,
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

}  // namespace execution_table_generations_test
}  // namespace tutti
