#include "resolvers/leader/step_cleanups.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace tutti {
namespace step_cleanups_test {

TEST(StepCleanupsTest, TheLastIsKnownOfEachStepAndOfAll) {
  StepCleanups cleanups(10);
  EXPECT_EQ(cleanups.LastOf(1), 0u);
  EXPECT_EQ(cleanups.last(), 0u);
  cleanups.Add(1, 5);
  cleanups.Add(2, 6);
  EXPECT_EQ(cleanups.LastOf(1), 5u);
  EXPECT_EQ(cleanups.LastOf(2), 6u);
  EXPECT_EQ(cleanups.last(), 6u);
}

TEST(StepCleanupsTest, OfThoseAtTheSameTimeTheLargestIsTheLast) {
  StepCleanups cleanups(10);
  cleanups.Add(1, 7);
  cleanups.Add(1, 5);
  cleanups.Add(1, 7);
  EXPECT_EQ(cleanups.LastOf(1), 7u);
  EXPECT_EQ(cleanups.last(), 7u);
}

TEST(StepCleanupsTest, WhoKnewOfAnEarlierOneIsLate) {
  StepCleanups cleanups(10);
  EXPECT_FALSE(cleanups.IsLate(1, 0));
  cleanups.Add(1, 5);
  cleanups.Add(1, 7);
  EXPECT_TRUE(cleanups.IsLate(1, 0));
  EXPECT_TRUE(cleanups.IsLate(1, 5));
  EXPECT_FALSE(cleanups.IsLate(1, 7));
  EXPECT_FALSE(cleanups.IsLate(1, std::numeric_limits<uint64_t>::max()));
  EXPECT_FALSE(cleanups.IsLate(2, 0));
}

// Its words are late for none that it had heard of.
TEST(StepCleanupsTest, WhoForgetsTheOldestIsPastIt) {
  StepCleanups cleanups(3);
  cleanups.Add(1, 1);
  cleanups.Add(2, 2);
  cleanups.Add(1, 3);
  cleanups.Add(3, 4);  // The first of step 1 is over, the second is not.
  EXPECT_EQ(cleanups.LastOf(1), 3u);
  EXPECT_EQ(cleanups.LastOf(2), 2u);
  cleanups.Add(4, 5);
  EXPECT_EQ(cleanups.LastOf(2), 2u);
  EXPECT_FALSE(cleanups.IsLate(2, 0));
  cleanups.Add(5, 6);
  EXPECT_EQ(cleanups.LastOf(1), 3u);
  EXPECT_EQ(cleanups.LastOf(2), 3u);
  EXPECT_EQ(cleanups.LastOf(3), 4u);
}

TEST(StepCleanupsTest, WhoComesLaterIsPastWhatWasBefore) {
  StepCleanups cleanups(10);
  cleanups.Skip(5);
  EXPECT_EQ(cleanups.last(), 5u);
  EXPECT_EQ(cleanups.LastOf(1), 5u);
  EXPECT_FALSE(cleanups.IsLate(1, 0));
  cleanups.Add(1, 6);
  EXPECT_EQ(cleanups.LastOf(1), 6u);
  EXPECT_EQ(cleanups.LastOf(2), 5u);
}

}  // namespace step_cleanups_test
}  // namespace tutti
