#include "framework/base/ended_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace ended_steps_test {

TEST(EndedStepsTest, AStepSequenceTakesOneEntry) {
  EndedSteps ended;
  EXPECT_TRUE(ended.empty());
  for (int64_t step = 100; step < 10'100; ++step) ended.Add(step);
  EXPECT_EQ(ended.num_runs(), 1u);
  EXPECT_FALSE(ended.Contains(99));
  EXPECT_TRUE(ended.Contains(100));
  EXPECT_TRUE(ended.Contains(10'099));
  EXPECT_FALSE(ended.Contains(10'100));
}

TEST(EndedStepsTest, AddingAnIdTwiceChangesNothing) {
  EndedSteps ended;
  for (int i = 0; i < 2; ++i) ended.Add(7);
  EXPECT_TRUE(ended.Contains(7));
  EXPECT_EQ(ended.num_runs(), 1u);
}

TEST(EndedStepsTest, TakesTheLeastAndTheLargestId) {
  using Limits = std::numeric_limits<int64_t>;
  EndedSteps ended;
  for (const int64_t step : {Limits::max(), Limits::min(), int64_t{-1}}) {
    ended.Add(step);
    EXPECT_TRUE(ended.Contains(step));
  }
  EXPECT_FALSE(ended.Contains(0));
}

// None of these ids follow one another.
TEST(EndedStepsTest, RemembersTheRunsThatWereBegunLast) {
  constexpr int64_t kMaxRuns = 3;
  EndedSteps ended(kMaxRuns);
  for (int64_t i = 0; i < 100; ++i) {
    ended.Add(10 * i);
    EXPECT_LT(ended.num_runs(), 2u * kMaxRuns);
    for (int64_t kept = std::max<int64_t>(0, i - kMaxRuns + 1); kept <= i;
         ++kept) {
      EXPECT_TRUE(ended.Contains(10 * kept)) << kept << " after " << i;
    }
  }
  EXPECT_FALSE(ended.Contains(0));
}

TEST(EndedStepsTest, TheErrorNamesTheStep) {
  EXPECT_THAT(StepHasEndedError(7), StatusIs(absl::StatusCode::kAborted,
                                             testing::HasSubstr("step 7")));
}

}  // namespace ended_steps_test
}  // namespace tutti
