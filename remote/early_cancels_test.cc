#include "remote/early_cancels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tutti/collective.h"

namespace tutti {
namespace early_cancels_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr absl::Duration kLifetime = absl::Seconds(30);
constexpr absl::Time kStart = absl::UnixEpoch();

EarlyCancels::EarlyCancel Of(int task, GroupKey group, uint64_t execution,
                             int64_t step = 0) {
  return {.caller = {.task = task},
          .exec = {.step = step, .group = group, .execution = execution},
          .reason = absl::AbortedError("")};
}

// Returns the numbers of the group's kept executions.
std::vector<uint64_t> ExecutionsOf(const EarlyCancels& cancels,
                                   GroupKey group) {
  std::vector<uint64_t> executions;
  for (const auto& cancel : cancels.OfGroup(group)) {
    executions.push_back(cancel.exec.execution);
  }
  return executions;
}

TEST(EarlyCancelsTest, AreFoundByTheirGroupInTheOrderInWhichTheyCame) {
  EarlyCancels cancels(10, kLifetime);
  EXPECT_TRUE(cancels.Add(Of(1, 7, 5), kStart));
  EXPECT_TRUE(cancels.Add(Of(1, 8, 6), kStart));
  EXPECT_TRUE(cancels.Add(Of(1, 7, 3), kStart));
  EXPECT_THAT(ExecutionsOf(cancels, 7), ElementsAre(5, 3));
  EXPECT_THAT(ExecutionsOf(cancels, 9), IsEmpty());
}

TEST(EarlyCancelsTest, AreRefusedPastTheirNumberUntilTheOldestIsTooOld) {
  EarlyCancels cancels(2, kLifetime);
  EXPECT_TRUE(cancels.Add(Of(1, 7, 1), kStart));
  EXPECT_TRUE(cancels.Add(Of(1, 7, 2), kStart + absl::Seconds(1)));
  EXPECT_FALSE(cancels.Add(Of(1, 7, 3), kStart + kLifetime));
  const absl::Time later = kStart + kLifetime + absl::Nanoseconds(1);
  EXPECT_TRUE(cancels.Add(Of(1, 7, 4), later));
  EXPECT_FALSE(cancels.Add(Of(1, 7, 5), later));
  EXPECT_THAT(ExecutionsOf(cancels, 7), ElementsAre(2, 4));
}

TEST(EarlyCancelsTest, OneIsRemovedOfItsCallerAlone) {
  EarlyCancels cancels(10, kLifetime);
  EXPECT_TRUE(cancels.Add(Of(1, 7, 5), kStart));
  EXPECT_TRUE(cancels.Add(Of(2, 7, 5), kStart));
  EXPECT_TRUE(cancels.Add(Of(1, 7, 6), kStart));
  cancels.Remove(Of(1, 7, 5));
  EXPECT_THAT(ExecutionsOf(cancels, 7), ElementsAre(5, 6));
}

TEST(EarlyCancelsTest, AllOfAStepAreRemoved) {
  EarlyCancels cancels(10, kLifetime);
  EXPECT_TRUE(cancels.Add(Of(1, 7, 5, /*step=*/1), kStart));
  EXPECT_TRUE(cancels.Add(Of(1, 7, 5, /*step=*/2), kStart));
  EXPECT_TRUE(cancels.Add(Of(1, 8, 5, /*step=*/1), kStart));
  cancels.RemoveStep(1);
  EXPECT_EQ(cancels.size(), 1u);
  EXPECT_THAT(ExecutionsOf(cancels, 7), ElementsAre(5));
}

}  // namespace early_cancels_test
}  // namespace tutti
