#include "resolvers/leader/given_up_executions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "absl/status/status.h"
#include "framework/base/ended_steps.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace given_up_executions_test {

ExecKey Execution(int64_t step, uint64_t number) {
  return {.step = step, .group = 7, .instance = 8, .execution = number};
}

GivenUp WordOf(const ExecKey& execution) {
  return {.execution = execution,
          .reason = absl::DeadlineExceededError("too late")};
}

const absl::Status kReason = WordOf(Execution(1, 0)).reason;

TEST(GivenUpExecutionsTest, TheFirstReasonOfAnExecutionStays) {
  GivenUpExecutions given_up;
  EXPECT_THAT(given_up.Find(Execution(1, 0)), IsOk());
  EXPECT_TRUE(given_up.Add(WordOf(Execution(1, 0))));
  EXPECT_FALSE(given_up.Add({Execution(1, 0), absl::AbortedError("later")}));
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
  GivenUpExecutions given_up;
  given_up.Add(WordOf(Execution(1, 0)));
  given_up.Add(WordOf(Execution(2, 0)));
  for (int i = 0; i < 2; ++i) given_up.EndStep(1);
  EXPECT_EQ(given_up.Find(Execution(1, 0)), StepHasEndedError(1));
  EXPECT_EQ(given_up.Find(Execution(2, 0)), kReason);
  EXPECT_EQ(given_up.size(), 1u);
}

TEST(GivenUpExecutionsTest, TakesNothingMoreOfAStepThatHasEnded) {
  GivenUpExecutions given_up;
  given_up.EndStep(1);
  EXPECT_FALSE(given_up.Add(WordOf(Execution(1, 0))));
  EXPECT_FALSE(given_up.AddOwn(WordOf(Execution(1, 1))));
  EXPECT_EQ(given_up.Find(Execution(1, 0)), StepHasEndedError(1));
  EXPECT_EQ(given_up.size(), 0u);
}

TEST(GivenUpExecutionsTest, ListsThoseOfAGroupAndItsOwn) {
  GivenUpExecutions given_up;
  ExecKey other = Execution(1, 0);
  other.group = 70;
  EXPECT_TRUE(given_up.AddOwn(WordOf(Execution(1, 0))));
  given_up.Add(WordOf(other));
  given_up.Add(WordOf(Execution(1, 1)));
  ASSERT_EQ(given_up.OfGroup(7).size(), 2u);
  EXPECT_EQ(given_up.OfGroup(7)[1].execution, Execution(1, 1));
  EXPECT_EQ(given_up.OfGroup(7)[1].reason, kReason);
  ASSERT_EQ(given_up.Own().size(), 1u);
  EXPECT_EQ(given_up.Own()[0].execution, Execution(1, 0));
}

}  // namespace given_up_executions_test
}  // namespace tutti
