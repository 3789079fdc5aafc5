#include "resolvers/leader/given_up_executions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace given_up_executions_test {

ExecKey Execution(int64_t step, uint64_t number) {
  return {.step = step, .group = 7, .instance = 8, .execution = number};
}

GivenUp WordOf(const ExecKey& execution, uint64_t last_cleanup = 0) {
  return {.execution = execution,
          .reason = absl::DeadlineExceededError("too late"),
          .last_cleanup = last_cleanup};
}

using ::testing::HasSubstr;

const absl::Status kReason = WordOf(Execution(1, 0)).reason;

TEST(GivenUpExecutionsTest, TheFirstReasonOfAnExecutionStays) {
  GivenUpExecutions given_up;
  EXPECT_THAT(given_up.Find(Execution(1, 0)), IsOk());
  EXPECT_TRUE(given_up.Add(WordOf(Execution(1, 0))));
  EXPECT_FALSE(given_up.Add({Execution(1, 0), absl::AbortedError("later"), 0}));
  EXPECT_EQ(given_up.Find(Execution(1, 0)), kReason);
  EXPECT_THAT(given_up.Find(Execution(1, 1)), IsOk());
  EXPECT_THAT(given_up.Find(Execution(2, 0)), IsOk());
}

TEST(GivenUpExecutionsTest, KeepsTheNewest) {
  GivenUpExecutions given_up(/*max_entries=*/2);
  for (uint64_t i = 0; i < 3; ++i) given_up.Add(WordOf(Execution(1, i)));
  EXPECT_EQ(given_up.size(), 2u);
  EXPECT_THAT(given_up.Find(Execution(1, 0)), IsOk());
  EXPECT_EQ(given_up.Find(Execution(1, 1)), kReason);
  EXPECT_EQ(given_up.Find(Execution(1, 2)), kReason);
}

TEST(GivenUpExecutionsTest, ForgetsAStepThatEndsAndNoOther) {
  for (const bool everywhere : {false, true}) {
    GivenUpExecutions given_up;
    given_up.BeginStep(1);
    given_up.Add(WordOf(Execution(1, 0)));
    given_up.Add(WordOf(Execution(2, 0)));
    if (everywhere) {
      given_up.EndStepEverywhere(1, 1);
    } else {
      given_up.EndStep(1);
    }
    EXPECT_EQ(given_up.IsOverOnAllTasks(1), everywhere);
    EXPECT_FALSE(given_up.IsOverOnAllTasks(2));
    EXPECT_THAT(given_up.Find(Execution(1, 0)), IsOk());
    EXPECT_EQ(given_up.Find(Execution(2, 0)), kReason);
    EXPECT_EQ(given_up.size(), 1u);
  }
}

TEST(GivenUpExecutionsTest, AStepThatBeginsKnowsWhatOthersGaveUpInIt) {
  GivenUpExecutions given_up;
  given_up.Add(WordOf(Execution(1, 0)));
  given_up.BeginStep(1);
  EXPECT_EQ(given_up.Find(Execution(1, 0)), kReason);
}

TEST(GivenUpExecutionsTest, ListsThoseOfAGroupAndItsOwn) {
  GivenUpExecutions given_up;
  ExecKey other = Execution(1, 0);
  other.group = 70;
  given_up.AddOwn(Execution(1, 0), kReason, given_up.BeginStep(1));
  given_up.Add(WordOf(other));
  given_up.Add(WordOf(Execution(1, 1)));
  ASSERT_EQ(given_up.OfGroup(7).size(), 2u);
  EXPECT_EQ(given_up.OfGroup(7)[1].execution, Execution(1, 1));
  EXPECT_EQ(given_up.OfGroup(7)[1].reason, kReason);
  ASSERT_EQ(given_up.Own().size(), 1u);
  EXPECT_EQ(given_up.Own()[0].execution, Execution(1, 0));
}

// --- Steps that are over here alone ------------------------------------------

TEST(GivenUpExecutionsTest, OthersHearAlsoAfterTheStepIsOverHere) {
  GivenUpExecutions given_up;
  const uint64_t first = given_up.BeginStep(1);
  given_up.EndStep(1);
  EXPECT_TRUE(given_up.AddOwn(Execution(1, 0), kReason, first).has_value());
  EXPECT_TRUE(given_up.Add(WordOf(Execution(1, 1))));
  EXPECT_EQ(given_up.Find(Execution(1, 0)), kReason);
  EXPECT_EQ(given_up.Find(Execution(1, 1)), kReason);
}

TEST(GivenUpExecutionsTest, TakesNothingOfAnEarlierBeginning) {
  GivenUpExecutions given_up;
  const uint64_t first = given_up.BeginStep(1);
  given_up.EndStep(1);
  const uint64_t second = given_up.BeginStep(1);
  EXPECT_FALSE(given_up.AddOwn(Execution(1, 0), kReason, first).has_value());
  EXPECT_TRUE(given_up.AddOwn(Execution(1, 0), kReason, second).has_value());
  given_up.EndStep(1);
  EXPECT_FALSE(given_up.AddOwn(Execution(1, 0), kReason, first).has_value());
  EXPECT_TRUE(given_up.AddOwn(Execution(1, 0), kReason, second).has_value());
}

TEST(GivenUpExecutionsTest, WhatOthersGiveUpBeforeItBeginsHereAgainStays) {
  GivenUpExecutions given_up;
  given_up.BeginStep(1);
  given_up.EndStep(1);
  given_up.Add(WordOf(Execution(1, 0)));
  given_up.BeginStep(1);
  EXPECT_EQ(given_up.Find(Execution(1, 0)), kReason);
}

// --- Steps that are over on all tasks ----------------------------------------

TEST(GivenUpExecutionsTest, WhatIsOfBeforeACleanupIsLate) {
  GivenUpExecutions given_up;
  given_up.EndStepEverywhere(1, 1);
  EXPECT_FALSE(given_up.Add(WordOf(Execution(1, 0), /*last_cleanup=*/0)));
  EXPECT_THAT(given_up.Find(Execution(1, 0)), IsOk());
  EXPECT_THAT(given_up.Find(Execution(1, 0), /*last_cleanup=*/0),
              StatusIs(absl::StatusCode::kAborted,
                       HasSubstr("step 1 has been cleaned up")));
  EXPECT_THAT(given_up.Find(Execution(1, 0), /*last_cleanup=*/1), IsOk());
}

// Also where it has not begun here yet, and then does.
TEST(GivenUpExecutionsTest, WhatIsOfAfterACleanupStays) {
  GivenUpExecutions given_up;
  given_up.BeginStep(1);
  given_up.EndStepEverywhere(1, 1);
  EXPECT_TRUE(given_up.Add(WordOf(Execution(1, 0), /*last_cleanup=*/1)));
  given_up.EndStep(1);  // As part of the same clean-up.
  given_up.BeginStep(1);
  EXPECT_EQ(given_up.Find(Execution(1, 0)), kReason);
  EXPECT_EQ(given_up.Find(Execution(1, 0), /*last_cleanup=*/1), kReason);
  given_up.EndStepEverywhere(1, 2);
  EXPECT_THAT(given_up.Find(Execution(1, 0)), IsOk());
}

// Which this task may hear of late, or never.
TEST(GivenUpExecutionsTest, WhatIsOfAfterTheNextCleanupCountsAtOnce) {
  GivenUpExecutions given_up;
  given_up.BeginStep(1);
  EXPECT_TRUE(given_up.Add(WordOf(Execution(1, 0), /*last_cleanup=*/0)));
  EXPECT_TRUE(given_up.Add({Execution(1, 0), absl::AbortedError("next"), 1}));
  EXPECT_EQ(given_up.Find(Execution(1, 0)), absl::AbortedError("next"));
  EXPECT_FALSE(given_up.Add(WordOf(Execution(1, 0), /*last_cleanup=*/0)));
  given_up.EndStepEverywhere(1, 1);
  EXPECT_EQ(given_up.Find(Execution(1, 0)), absl::AbortedError("next"));
  EXPECT_EQ(given_up.size(), 1u);
}

TEST(GivenUpExecutionsTest, ACleanupThatIsNotTheLastForgetsTheStep) {
  GivenUpExecutions given_up;
  given_up.EndStepEverywhere(1, 5);
  EXPECT_TRUE(given_up.Add(WordOf(Execution(1, 0), /*last_cleanup=*/5)));
  given_up.EndStepEverywhere(1, 4);
  EXPECT_THAT(given_up.Find(Execution(1, 0)), IsOk());
  EXPECT_EQ(given_up.LastCleanupOf(1), 5u);
  EXPECT_EQ(given_up.LastCleanup(), 5u);
}

TEST(GivenUpExecutionsTest, OthersHearWhichTimeItIsOf) {
  GivenUpExecutions given_up;
  given_up.EndStepEverywhere(1, 1);
  given_up.EndStepEverywhere(1, 2);
  const uint64_t beginning = given_up.BeginStep(1);
  const auto own = given_up.AddOwn(Execution(1, 0), kReason, beginning);
  ASSERT_TRUE(own.has_value());
  EXPECT_EQ(own->execution, Execution(1, 0));
  EXPECT_EQ(own->reason, kReason);
  EXPECT_EQ(own->last_cleanup, 2u);
  ASSERT_EQ(given_up.Own().size(), 1u);
  EXPECT_EQ(given_up.Own()[0].last_cleanup, 2u);
}

TEST(GivenUpExecutionsTest, OthersHearNothingOfWhatIsOverOnAllTasks) {
  GivenUpExecutions given_up;
  const uint64_t first = given_up.BeginStep(1);
  given_up.EndStepEverywhere(1, 1);
  EXPECT_FALSE(given_up.AddOwn(Execution(1, 0), kReason, first).has_value());
  given_up.BeginStep(1);
  EXPECT_FALSE(given_up.AddOwn(Execution(1, 0), kReason, first).has_value());
  given_up.EndStep(1);
  EXPECT_FALSE(given_up.AddOwn(Execution(1, 0), kReason, first).has_value());
}

// --- After more clean-ups than are remembered --------------------------------

TEST(GivenUpExecutionsTest, TasksThatForgetInAnotherOrderAgree) {
  GivenUpExecutions here(4), there(4);
  for (int64_t step : {1, 9, 3, 4, 5, 1}) {
    here.EndStepEverywhere(step, here.LastCleanup() + 1);
  }
  for (const auto& [step, number] : std::vector<std::pair<int64_t, uint64_t>>{
           {9, 2}, {1, 1}, {3, 3}, {4, 4}, {5, 5}, {1, 6}}) {
    there.EndStepEverywhere(step, number);
  }
  const uint64_t beginning = here.BeginStep(1);
  EXPECT_THAT(there.Find(Execution(1, 5), here.LastCleanupOf(1)), IsOk());
  const auto own = here.AddOwn(Execution(1, 0), kReason, beginning);
  ASSERT_TRUE(own.has_value());
  EXPECT_TRUE(there.Add(*own));
  EXPECT_EQ(there.Find(Execution(1, 0)), kReason);
}

TEST(GivenUpExecutionsTest, WhoHasForgottenAndWhoHasNotHearEachOther) {
  GivenUpExecutions one(4), other(4);
  for (int64_t step : {1, 9, 3, 4, 5}) {
    one.EndStepEverywhere(step, one.LastCleanup() + 1);
  }
  for (const auto& [step, number] : std::vector<std::pair<int64_t, uint64_t>>{
           {9, 2}, {1, 1}, {3, 3}, {4, 4}, {5, 5}}) {
    other.EndStepEverywhere(step, number);
  }
  const auto word = [](GivenUpExecutions& of, uint64_t execution) {
    return *of.AddOwn(Execution(1, execution), kReason, of.BeginStep(1));
  };
  EXPECT_TRUE(one.Add(word(other, 0)));
  EXPECT_EQ(one.Find(Execution(1, 0)), kReason);
  EXPECT_TRUE(other.Add(word(one, 1)));
  EXPECT_EQ(other.Find(Execution(1, 1)), kReason);
}

TEST(GivenUpExecutionsTest, WhatIsKnownStaysUntilItsStepIsCleanedUp) {
  GivenUpExecutions given_up(/*max_entries=*/2);
  given_up.EndStepEverywhere(1, 1);
  uint64_t beginning = given_up.BeginStep(1);
  EXPECT_TRUE(given_up.AddOwn(Execution(1, 0), kReason, beginning).has_value());
  given_up.EndStepEverywhere(2, 2);
  given_up.EndStepEverywhere(3, 3);
  EXPECT_EQ(given_up.Find(Execution(1, 0)), kReason);
  given_up.EndStepEverywhere(1, 4);
  EXPECT_EQ(given_up.size(), 0u);
  beginning = given_up.BeginStep(1);
  EXPECT_TRUE(given_up.AddOwn(Execution(1, 0), kReason, beginning).has_value());
}

TEST(GivenUpExecutionsTest, KeepsTheNumbersOfTheNewestStepsThatEnded) {
  GivenUpExecutions given_up(/*max_entries=*/2);
  for (int64_t step = 0; step < 3; ++step) {
    given_up.EndStepEverywhere(step, static_cast<uint64_t>(step) + 1);
  }
  EXPECT_FALSE(given_up.IsOverOnAllTasks(0));
  EXPECT_TRUE(given_up.IsOverOnAllTasks(1));
  EXPECT_TRUE(given_up.IsOverOnAllTasks(2));
}

}  // namespace given_up_executions_test
}  // namespace tutti
