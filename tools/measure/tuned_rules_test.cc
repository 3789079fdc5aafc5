#include "tools/measure/tuned_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace tutti {
namespace tuned_rules_test {

constexpr int64_t kNoEnd = std::numeric_limits<int64_t>::max();

TunedPoint Point(int64_t bytes, TimesByAlgorithm times) {
  return {.layout = GroupLayout::Uniform(1, 4),
          .bytes = bytes,
          .to_choose = std::move(times)};
}

std::vector<SelectionRule> RulesOf(const std::vector<TunedPoint>& points) {
  return RulesFrom(points).rules;
}

TEST(TunedRulesTest, TheRatioIsToTheFastest) {
  const TimesByAlgorithm times = {{"A", 2}, {"B", 3}};
  EXPECT_EQ(RatioToBest(times, "A"), 1);
  EXPECT_EQ(RatioToBest(times, "B"), 1.5);
  EXPECT_EQ(RatioToBest(times, "C"), std::numeric_limits<double>::infinity());
}

TEST(TunedRulesTest, BordersAreBetweenTheSizesAndTheEndsAreOpen) {
  const auto rules =
      RulesOf({Point(4, {{"A", 1}, {"B", 2}}), Point(16, {{"A", 1}, {"B", 2}}),
               Point(64, {{"A", 2}, {"B", 1}})});
  ASSERT_EQ(rules.size(), 2u);
  EXPECT_EQ(rules[0].implementation, "A");
  EXPECT_EQ(rules[0].layout, "1x4");
  EXPECT_EQ(rules[0].one_process, true);
  EXPECT_EQ(rules[0].min_bytes, 0);
  EXPECT_EQ(rules[0].max_bytes, 32);
  EXPECT_EQ(rules[1].implementation, "B");
  EXPECT_EQ(rules[1].min_bytes, 33);
  EXPECT_EQ(rules[1].max_bytes, kNoEnd);
}

TEST(TunedRulesTest, OneRuleIsForAllPointsAtWhichItIsNearTheBest) {
  const auto rules = RulesOf({Point(4, {{"A", 1.00}, {"B", 1.02}}),
                              Point(16, {{"A", 1.04}, {"B", 1.00}}),
                              Point(64, {{"A", 1.20}, {"B", 1.00}})});
  ASSERT_EQ(rules.size(), 1u);
  EXPECT_EQ(rules[0].implementation, "B");
}

TEST(TunedRulesTest, EachCollectiveAndLayoutHasRulesOfItsOwn) {
  std::vector<TunedPoint> points(3, Point(4, {{"A", 1}}));
  points[1].layout = GroupLayout::Uniform(2, 2);
  points[2].type = CollectiveType::kBroadcast;
  const auto rules = RulesOf(points);
  ASSERT_EQ(rules.size(), 3u);
  EXPECT_EQ(rules[1].layout, "2x2");
  EXPECT_EQ(rules[2].type, CollectiveType::kBroadcast);
  for (const SelectionRule& rule : rules) {
    EXPECT_EQ(rule.min_bytes, 0);
    EXPECT_EQ(rule.max_bytes, kNoEnd);
  }
}

TEST(TunedRulesTest, RulesAreForProcessesLikeThoseThatWereMeasured) {
  std::vector<TunedPoint> points(2, Point(4, {{"A", 1}}));
  points[1].one_process = false;
  const auto rules = RulesOf(points);
  ASSERT_EQ(rules.size(), 2u);
  EXPECT_EQ(rules[0].one_process, true);
  EXPECT_EQ(rules[1].one_process, false);
  EXPECT_EQ(rules[1].min_bytes, 0);
}

TEST(TunedRulesTest, NeighbouringSizesHaveABorderToo) {
  const auto rules =
      RulesOf({Point(4, {{"A", 1}, {"B", 2}}), Point(5, {{"A", 2}, {"B", 1}})});
  ASSERT_EQ(rules.size(), 2u);
  EXPECT_EQ(rules[0].max_bytes, 4);
  EXPECT_EQ(rules[1].min_bytes, 5);
}

TEST(TunedRulesTest, WithoutPointsThereAreNoRules) {
  EXPECT_TRUE(RulesOf({}).empty());
}

}  // namespace tuned_rules_test
}  // namespace tutti
