#include "tools/measure/tune_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace tune_plan_test {

TuneOptions OneBarrier() {
  TuneOptions options;
  options.collectives = {"barrier"};
  options.layouts = {"2x4"};
  return options;
}

TEST(TunePlanTest, WithoutAClusterAllRanksAreInThisProcess) {
  const auto questions = PlanTuning(OneBarrier());
  ASSERT_THAT(questions, IsOk());
  ASSERT_EQ(questions->size(), 1u);
  EXPECT_EQ(questions->front().ranks.first, 0);
  EXPECT_EQ(questions->front().ranks.count, 8);
  EXPECT_TRUE(RequestFor(questions->front(), {}).one_process);
}

TEST(TunePlanTest, InAClusterEachTaskHasItsRanks) {
  TuneOptions options = OneBarrier();
  options.cluster = {.cluster = {.addresses = {"a:1", "b:1"}, .this_task = 1},
                     .devices_per_task = 4};
  const auto questions = PlanTuning(options);
  ASSERT_THAT(questions, IsOk());
  ASSERT_EQ(questions->size(), 1u);
  EXPECT_EQ(questions->front().ranks.first, 4);
  EXPECT_EQ(questions->front().ranks.count, 4);
  EXPECT_FALSE(RequestFor(questions->front(), {}).one_process);
}

TEST(TunePlanTest, TheChoiceKnowsWhoConnectsTheTasksAndWhatMessagesCost) {
  const auto questions = PlanTuning(OneBarrier());
  ASSERT_THAT(questions, IsOk());
  SelectionPolicy policy{.delegate = "MPI"};
  policy.model.between_gap_seconds = 3;
  const SelectionRequest request = RequestFor(questions->front(), policy);
  EXPECT_EQ(request.delegate, "MPI");
  EXPECT_EQ(request.model.between_gap_seconds, 3);
}

TEST(TunePlanTest, RoundsGoOnWhileTheyAreShort) {
  const TuneOptions options;
  EXPECT_TRUE(WantsAnotherRound(options, 4, absl::Hours(1)));
  EXPECT_FALSE(WantsAnotherRound(options, 5, absl::Milliseconds(500)));
  EXPECT_TRUE(WantsAnotherRound(options, 5, absl::Milliseconds(499)));
  EXPECT_TRUE(WantsAnotherRound(options, 24, absl::Milliseconds(1)));
  EXPECT_FALSE(WantsAnotherRound(options, 25, absl::Milliseconds(1)));
}

TEST(TunePlanTest, ThereAreAsManyRoundsAsAreAskedFor) {
  const TuneOptions options = {.rounds = 7};
  EXPECT_TRUE(WantsAnotherRound(options, 6, absl::Hours(1)));
  EXPECT_FALSE(WantsAnotherRound(options, 7, absl::ZeroDuration()));
}

}  // namespace tune_plan_test
}  // namespace tutti
