#include "schedule/simulate/cluster_model.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedule/engine/schedule_run.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace cluster_model_test {

using ::testing::HasSubstr;

std::string WhyNot(const ClusterModel& cluster) {
  return std::string(CheckCluster(cluster).message());
}

TEST(ClusterModelTest, TheDefaultIsTheMachineOfTheCostModel) {
  const CostModel model = {.within = {1, 2}, .between = {3, 4}};
  const ClusterModel cluster = ClusterOf(model);
  ASSERT_EQ(cluster.links.size(), 2);
  EXPECT_EQ(cluster.links[0].cost.latency_seconds, 1);
  EXPECT_EQ(cluster.links[0].tasks, 1);
  EXPECT_EQ(cluster.links[1].cost.bytes_per_second, 4);
  EXPECT_EQ(cluster.links[1].tasks, 0);
  EXPECT_THAT(CheckCluster(ClusterOf()), IsOk());
}

TEST(ClusterModelTest, ClassesGoFromTheInsideToTheOutside) {
  const auto with = [](std::vector<int> tasks) {
    ClusterModel cluster;
    for (int one : tasks) cluster.links.push_back({"x", {1, 1}, one});
    return WhyNot(cluster);
  };
  EXPECT_EQ(with({0}), "");
  EXPECT_EQ(with({1, 4, 8, 0}), "");
  EXPECT_THAT(with({}), HasSubstr("links is empty"));
  EXPECT_THAT(with({1}), HasSubstr("links[0]: tasks is 1; wanted is 0"));
  EXPECT_THAT(with({2, 0}), HasSubstr("links[0]: tasks is 2; wanted is 1"));
  EXPECT_THAT(with({1, 4, 6, 0}),
              HasSubstr("links[2]: tasks is 6; wanted is a multiple of 4"));
  EXPECT_THAT(with({1, 1, 0}), HasSubstr("links[1]: tasks is 1"));
}

TEST(ClusterModelTest, TimesAndRatesAreChecked) {
  ClusterModel cluster = ClusterOf();
  cluster.links[1].cost.latency_seconds = -1;
  EXPECT_THAT(WhyNot(cluster), HasSubstr("links[1]: latency is -1"));
  cluster = ClusterOf();
  cluster.links[0].cost.bytes_per_second = 0;
  EXPECT_THAT(WhyNot(cluster), HasSubstr("links[0]: bandwidth is 0"));
  cluster = ClusterOf();
  cluster.seconds_per_message = std::numeric_limits<double>::infinity();
  EXPECT_THAT(WhyNot(cluster), HasSubstr("message overhead is inf"));
  cluster = ClusterOf();
  cluster.reduced_bytes_per_second = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(WhyNot(cluster), HasSubstr("reduction is nan"));
  cluster.reduced_bytes_per_second = std::numeric_limits<double>::infinity();
  EXPECT_THAT(CheckCluster(cluster), IsOk());
}

TEST(ClusterModelTest, AHostHasNoLessThanNothing) {
  const auto with = [](const Host& host) {
    ClusterModel cluster = ClusterOf();
    cluster.host = host;
    return WhyNot(cluster);
  };
  EXPECT_EQ(with({.tasks = 4, .processors = 2, .inline_bytes = 0}), "");
  EXPECT_THAT(with({.tasks = -1}), HasSubstr("host: tasks is -1; wanted is 0"));
  EXPECT_THAT(with({.processors = -2}), HasSubstr("host: processors is -2"));
  EXPECT_THAT(with({.inline_bytes = -3}), HasSubstr("inline bytes is -3"));
}

TEST(ClusterModelTest, TheLastHostMayHaveFewerTasks) {
  EXPECT_EQ(NumHosts({.tasks = 0, .processors = 1}, 7), 1);
  EXPECT_EQ(NumHosts({.tasks = 3, .processors = 1}, 6), 2);
  EXPECT_EQ(NumHosts({.tasks = 3, .processors = 1}, 7), 3);
}

TEST(ClusterModelTest, InlineIsWhatTheEngineDoesInline) {
  EXPECT_EQ(Host().inline_bytes, kInlineBytes);
}

}  // namespace cluster_model_test
}  // namespace tutti
