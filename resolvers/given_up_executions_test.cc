#include "resolvers/given_up_executions.h"

#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "tests/status_matchers.h"

namespace tutti {
namespace {

ExecKey Execution(int64_t step, uint64_t number) {
  return {.step = step, .group = 7, .instance = 8, .execution = number};
}

using Where = GivenUpExecutions::Where;

constexpr uint64_t kBeginning = 0;  // Of steps of which nobody said so.

const absl::Status kReason = absl::DeadlineExceededError("too late");

TEST(GivenUpExecutionsTest, TheFirstReasonOfAnExecutionStays) {
  GivenUpExecutions given_up;
  EXPECT_THAT(given_up.Find(Execution(1, 0)), IsOk());
  EXPECT_TRUE(given_up.Add(Execution(1, 0), kReason));
  EXPECT_FALSE(given_up.Add(Execution(1, 0), absl::AbortedError("later")));
  EXPECT_EQ(given_up.Find(Execution(1, 0)), kReason);
  EXPECT_THAT(given_up.Find(Execution(1, 1)), IsOk());
  EXPECT_THAT(given_up.Find(Execution(2, 0)), IsOk());
}

TEST(GivenUpExecutionsTest, KeepsTheNewest) {
  GivenUpExecutions given_up(/*max_entries=*/2);
  for (uint64_t i = 0; i < 3; ++i) given_up.Add(Execution(1, i), kReason);
  EXPECT_EQ(given_up.size(), 2u);
  EXPECT_THAT(given_up.Find(Execution(1, 0)), IsOk());
  EXPECT_EQ(given_up.Find(Execution(1, 1)), kReason);
  EXPECT_EQ(given_up.Find(Execution(1, 2)), kReason);
}

TEST(GivenUpExecutionsTest, ForgetsAStepThatEndsAndNoOther) {
  GivenUpExecutions given_up;
  given_up.Add(Execution(1, 0), kReason);
  given_up.Add(Execution(2, 0), kReason);
  given_up.EndStep(1, Where::kHere);
  EXPECT_TRUE(given_up.IsOver(1, Where::kHere));
  EXPECT_FALSE(given_up.IsOver(2, Where::kHere));
  EXPECT_THAT(given_up.Find(Execution(1, 0)), IsOk());
  EXPECT_EQ(given_up.Find(Execution(2, 0)), kReason);
}

TEST(GivenUpExecutionsTest, AStepThatBeginsAnewInheritsNothing) {
  GivenUpExecutions given_up;
  given_up.EndStep(1, Where::kHere);
  given_up.Add(Execution(1, 0), kReason);  // On its way when the step ended.
  given_up.BeginStep(1);
  EXPECT_FALSE(given_up.IsOver(1, Where::kHere));
  EXPECT_THAT(given_up.Find(Execution(1, 0)), IsOk());
}

TEST(GivenUpExecutionsTest, AStepThatOthersAreInKeepsWhatWasGivenUpSince) {
  GivenUpExecutions given_up;
  given_up.EndStep(1, Where::kHere);
  given_up.AddOwn(Execution(1, 0), kReason, kBeginning);
  given_up.ContinueStep(1, Where::kHere);
  EXPECT_FALSE(given_up.IsOver(1, Where::kHere));
  EXPECT_EQ(given_up.Find(Execution(1, 0)), kReason);
  given_up.EndStep(1, Where::kOnAllTasks);
  given_up.Add(Execution(1, 0), kReason);
  given_up.ContinueStep(1, Where::kHere);
  EXPECT_TRUE(given_up.IsOver(1, Where::kOnAllTasks));
  given_up.ContinueStep(1, Where::kOnAllTasks);
  EXPECT_FALSE(given_up.IsOver(1, Where::kHere));
  EXPECT_THAT(given_up.Find(Execution(1, 0)), IsOk());
}

TEST(GivenUpExecutionsTest, AStepThatBeginsKnowsWhatOthersGaveUpInIt) {
  GivenUpExecutions given_up;
  given_up.Add(Execution(1, 0), kReason);
  given_up.BeginStep(1);
  EXPECT_EQ(given_up.Find(Execution(1, 0)), kReason);
}

TEST(GivenUpExecutionsTest, TakesNothingOfATimeBeforeTheStepBeganAnew) {
  GivenUpExecutions given_up;
  const uint64_t first = given_up.BeginStep(1);
  EXPECT_TRUE(given_up.AddOwn(Execution(1, 0), kReason, first));
  given_up.EndStep(1, Where::kHere);
  EXPECT_TRUE(given_up.AddOwn(Execution(1, 0), kReason, first));
  const uint64_t second = given_up.BeginStep(1);
  EXPECT_FALSE(given_up.AddOwn(Execution(1, 0), kReason, first));
  EXPECT_TRUE(given_up.AddOwn(Execution(1, 0), kReason, second));
}

TEST(GivenUpExecutionsTest, TakesNothingOfATimeBeforeOthersBeganTheStepAnew) {
  GivenUpExecutions given_up;
  const uint64_t first = given_up.BeginStep(1);
  given_up.EndStep(1, Where::kOnAllTasks);
  given_up.ContinueStep(1, Where::kOnAllTasks);
  given_up.EndStep(1, Where::kHere);  // Later than the others.
  EXPECT_FALSE(given_up.IsOver(1, Where::kHere));
  EXPECT_FALSE(given_up.AddOwn(Execution(1, 0), kReason, first));
  EXPECT_TRUE(given_up.Add(Execution(1, 1), kReason));
  given_up.EndStep(1, Where::kHere);
  const uint64_t second = given_up.BeginStep(1);
  EXPECT_EQ(given_up.Find(Execution(1, 1)), kReason);
  EXPECT_TRUE(given_up.AddOwn(Execution(1, 0), kReason, second));
  given_up.EndStep(1, Where::kOnAllTasks);
  EXPECT_TRUE(given_up.IsOver(1, Where::kOnAllTasks));
  EXPECT_THAT(given_up.Find(Execution(1, 1)), IsOk());
}

TEST(GivenUpExecutionsTest, TakesNothingOfItsOwnWhileTheStepIsOverOnAllTasks) {
  GivenUpExecutions given_up;
  const uint64_t beginning = given_up.BeginStep(1);
  given_up.EndStep(1, Where::kOnAllTasks);
  EXPECT_FALSE(given_up.AddOwn(Execution(1, 0), kReason, beginning));
}

TEST(GivenUpExecutionsTest, KeepsTheNumbersOfTheNewestStepsThatEnded) {
  GivenUpExecutions given_up(/*max_entries=*/2);
  for (int64_t step = 0; step < 3; ++step) given_up.EndStep(step, Where::kHere);
  EXPECT_FALSE(given_up.IsOver(0, Where::kHere));
  EXPECT_TRUE(given_up.IsOver(1, Where::kHere));
  EXPECT_TRUE(given_up.IsOver(2, Where::kHere));
}

TEST(GivenUpExecutionsTest, AStepThatIsOverOnAllTasksIsOverHere) {
  GivenUpExecutions given_up;
  given_up.EndStep(1, Where::kHere);
  EXPECT_FALSE(given_up.IsOver(1, Where::kOnAllTasks));
  given_up.EndStep(1, Where::kOnAllTasks);
  given_up.EndStep(1, Where::kHere);
  EXPECT_TRUE(given_up.IsOver(1, Where::kOnAllTasks));
  EXPECT_TRUE(given_up.IsOver(1, Where::kHere));
}

TEST(GivenUpExecutionsTest, ListsThoseOfAGroupAndItsOwn) {
  GivenUpExecutions given_up;
  ExecKey other = Execution(1, 0);
  other.group = 70;
  given_up.AddOwn(Execution(1, 0), kReason, kBeginning);
  given_up.Add(other, kReason);
  given_up.Add(Execution(1, 1), kReason);
  ASSERT_EQ(given_up.OfGroup(7).size(), 2u);
  EXPECT_EQ(given_up.OfGroup(7)[1].execution, Execution(1, 1));
  EXPECT_EQ(given_up.OfGroup(7)[1].reason, kReason);
  ASSERT_EQ(given_up.Own().size(), 1u);
  EXPECT_EQ(given_up.Own()[0].execution, Execution(1, 0));
}

}  // namespace
}  // namespace tutti
