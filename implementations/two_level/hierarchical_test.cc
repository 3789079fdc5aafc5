#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "implementations/parts/binomial_tree.h"
#include "implementations/plan_testing.h"
#include "implementations/two_level/hierarchy.h"

namespace tutti {
namespace hierarchical_test {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr const char* kReduces[] = {"HierarchicalHalvingDoublingReduce",
                                    "HierarchicalRingReduce"};

GroupLayout Layout(const std::vector<int>& task_of_rank) {
  return *GroupLayout::Create(task_of_rank);
}

// Returns the number of chunks that each rank sends to other tasks.
std::vector<int> SentToOtherTasks(const std::string& name,
                                  const VerifyCase& request) {
  std::vector<int> sent;
  const auto plans = PlansOf(name, request);
  for (int rank = 0; rank < request.layout.size(); ++rank) {
    const auto sends = StepsOf(plans[rank], StepKind::kSend);
    const int task = request.layout.task_of(rank);
    sent.push_back(static_cast<int>(
        std::count_if(sends.begin(), sends.end(), [&](const Step& step) {
          return request.layout.task_of(step.peer) != task;
        })));
  }
  return sent;
}

TEST(HierarchicalReduceTest, ADeviceSendsTheLeastPossibleToOtherTasks) {
  for (const char* name : kReduces) {
    for (const int num_tasks : {2, 4, 8}) {
      for (const int num_devices : {1, 2, 3, 8}) {
        // Each rank has a chunk: 2 (T - 1) / T of the T chunks of a block.
        const auto layout = GroupLayout::Uniform(num_tasks, num_devices);
        EXPECT_THAT(SentToOtherTasks(name, {.layout = layout}),
                    Each(2 * (num_tasks - 1)))
            << name << " on " << layout.ToString();
      }
    }
  }
  EXPECT_THAT(SentToOtherTasks("HierarchicalRingReduce",
                               {.layout = GroupLayout::Uniform(5, 3)}),
              Each(2 * 4));
}

TEST(HierarchicalReduceTest, LeadersSendForTasksOfDifferentSizes) {
  const GroupLayout layout = Layout({0, 0, 0, 1, 2, 2});
  EXPECT_THAT(SentToOtherTasks("HierarchicalRingReduce", {.layout = layout}),
              ElementsAre(4, 0, 0, 4, 4, 0));  // Three chunks in total.
  EXPECT_EQ(PlansOf("HierarchicalRingReduce", {.layout = layout})[0].num_chunks,
            3);
}

TEST(HierarchicalReduceTest, StepsOfTheLevelsFollowEachOther) {
  for (const int num_tasks : {2, 4, 8}) {
    for (const int num_devices : {1, 2, 4, 8}) {
      const VerifyCase request = {
          .layout = GroupLayout::Uniform(num_tasks, num_devices)};
      const int inside = 2 * CeilLog2(num_devices);
      EXPECT_EQ(TransfersInARow(kReduces[0], request),
                inside + 2 * CeilLog2(num_tasks));
      EXPECT_EQ(TransfersInARow(kReduces[1], request),
                inside + 2 * (num_tasks - 1));
    }
  }
}

TEST(HierarchicalReduceTest, ShufflesTakeOneRoundInsideTasks) {
  for (const int num_tasks : {2, 4, 8}) {
    for (const int num_devices : {2, 4, 7}) {
      const VerifyCase request = {
          .layout = GroupLayout::Uniform(num_tasks, num_devices)};
      const int inside = 1 + CeilLog2(num_devices);
      EXPECT_EQ(TransfersInARow("ShuffleThenRing", request),
                inside + 2 * (num_tasks - 1));
      EXPECT_EQ(TransfersInARow("ShuffleThenShuffle", request),
                inside + 1 + CeilLog2(num_tasks));
      EXPECT_EQ(TransfersInARow("ShuffleThenRecursiveHalvingDoubling", request),
                inside + 2 * CeilLog2(num_tasks));
    }
  }
}

TEST(HierarchicalReduceTest, ShufflesKeepTheOrderOfRanks) {
  const VerifyCase request = {.layout = GroupLayout::Uniform(3, 3)};
  EXPECT_EQ(OutputOf("ShuffleThenShuffle", request, 8, 0),
            "f((0.0+1.0+2.0)+(3.0+4.0+5.0)+(6.0+7.0+8.0))");
}

TEST(HierarchicalReduceTest, DoubleTreesTakeAStepForTwoChunks) {
  for (const int num_tasks : {2, 3, 8, 13}) {
    const VerifyCase request = {.layout = GroupLayout::Uniform(num_tasks, 4)};
    EXPECT_LE(TransfersInARow("HierarchicalDoubleTreeReduce", request),
              2 * 2 + 3 * CeilLog2(num_tasks) + (num_tasks + 1) / 2 - 1);
    // Each device sends at most 2 blocks of T chunks.
    for (const int sent :
         SentToOtherTasks("HierarchicalDoubleTreeReduce", request)) {
      EXPECT_LE(sent, 2 * num_tasks + 2);
    }
  }
}

TEST(HierarchicalReduceTest, TasksAreReducedBeforeTheyMeet) {
  const VerifyCase request = {.layout = GroupLayout::Uniform(2, 2)};
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(OutputOf(kReduces[0], request, rank, 0),
              "f((0.0+1.0)+(2.0+3.0))");
    EXPECT_EQ(OutputOf(kReduces[1], request, rank, 3),
              "f((0.3+1.3)+(2.3+3.3))");
  }
}

TEST(HierarchicalReduceTest, OneLevelIsThatOfThePart) {
  const VerifyCase across = {.layout = GroupLayout::Uniform(5, 1)};
  const auto flat = PlansOf("RecursiveHalvingDoublingReduce", across);
  const auto plans = PlansOf(kReduces[0], across);
  for (int rank = 0; rank < 5; ++rank) {
    ASSERT_EQ(plans[rank].lanes.size(), flat[rank].lanes.size());
    EXPECT_EQ(StepsOf(plans[rank], StepKind::kSend).size(),
              StepsOf(flat[rank], StepKind::kSend).size());
  }
  // Within one task the reduce-scatter completes the sums.
  for (const Schedule& plan :
       PlansOf(kReduces[1], {.layout = GroupLayout::Uniform(1, 5)})) {
    EXPECT_TRUE(StepsOf(plan, StepKind::kCopy).empty());
  }
}

TEST(HierarchicalGatherTest, ADeviceSendsTheLeastPossibleToOtherTasks) {
  for (const int num_tasks : {2, 3, 8}) {
    for (const int num_devices : {1, 2, 3, 8}) {
      const VerifyCase request = {
          .layout = GroupLayout::Uniform(num_tasks, num_devices),
          .type = CollectiveType::kAllGather};
      EXPECT_THAT(SentToOtherTasks("HierarchicalGather", request),
                  Each(num_tasks - 1));
      EXPECT_EQ(TransfersInARow("HierarchicalGather", request),
                CeilLog2(num_tasks) + CeilLog2(num_devices));
    }
  }
}

TEST(HierarchicalGatherTest, LeadersSendForTasksOfDifferentSizes) {
  // All blocks go to two other tasks: 12 in total.
  EXPECT_THAT(SentToOtherTasks("HierarchicalGather",
                               {.layout = Layout({0, 0, 0, 1, 2, 2}),
                                .type = CollectiveType::kAllGather}),
              ElementsAre(6, 0, 0, 2, 4, 0));
}

TEST(HierarchicalReduceScatterTest, ADeviceSendsTheLeastPossibleToOtherTasks) {
  for (const int num_tasks : {2, 4, 8}) {
    for (const int num_devices : {1, 2, 3, 8}) {
      const VerifyCase request = {
          .layout = GroupLayout::Uniform(num_tasks, num_devices),
          .type = CollectiveType::kReduceScatter};
      EXPECT_THAT(SentToOtherTasks("HierarchicalReduceScatter", request),
                  Each(num_tasks - 1));
      EXPECT_EQ(TransfersInARow("HierarchicalReduceScatter", request),
                CeilLog2(num_tasks) + CeilLog2(num_devices));
    }
  }
}

TEST(HierarchicalReduceScatterTest, LeadersSendForTasksOfDifferentSizes) {
  // Each task sends the sums for all others once.
  const auto sent = SentToOtherTasks("HierarchicalReduceScatter",
                                     {.layout = Layout({0, 0, 0, 1, 2, 2}),
                                      .type = CollectiveType::kReduceScatter});
  EXPECT_THAT(sent, ElementsAre(3, 0, 0, 5, 4, 0));
}

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

}  // namespace hierarchical_test
}  // namespace tutti
