#include "implementations/two_level/hierarchy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace hierarchy_test {

using testing::ElementsAre;

TEST(HierarchyTest, ARankSeesItsTaskAndThoseLikeIt) {
  const auto layout = *GroupLayout::Create({0, 1, 2, 0, 1, 2});
  EXPECT_TRUE(IsEven(layout));
  const Hierarchy hierarchy(layout, /*rank=*/4);
  EXPECT_EQ(hierarchy.num_tasks(), 3);
  EXPECT_EQ(hierarchy.task(), 1);
  EXPECT_EQ(hierarchy.num_devices(), 2);
  EXPECT_EQ(hierarchy.device(), 1);
  EXPECT_THAT(hierarchy.devices(), ElementsAre(1, 4));
  EXPECT_THAT(hierarchy.Column(1), ElementsAre(3, 4, 5));
}

TEST(HierarchyTest, TasksOfDifferentSizesAreNotEven) {
  EXPECT_FALSE(IsEven(*GroupLayout::Create({0, 0, 0, 1, 2, 2})));
  EXPECT_TRUE(IsEven(GroupLayout::Uniform(1, 3)));
}

TEST(HierarchyTest, APartIsPricedOnItsLevel) {
  const auto layout = GroupLayout::Uniform(4, 2);
  const CostQuery query = {
      .layout = layout,
      .model = {.within = {.latency_seconds = 1, .bytes_per_second = 1},
                .between = {.latency_seconds = 10, .bytes_per_second = 0.1},
                .between_gap_seconds = 100}};
  const auto gather = CollectiveType::kAllGather;
  EXPECT_EQ(TrafficInTask(query, RingTraffic, gather).Seconds(query.model, 1),
            1 + 1);
  EXPECT_EQ(TrafficAcrossTasks(query, /*num_devices=*/2, RingTraffic, gather)
                .Seconds(query.model, 1),
            3 * (10 + 3 * 100) + 2 * 3 * 10);
}

}  // namespace hierarchy_test
}  // namespace tutti
