#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "implementations/parts/binomial_tree.h"
#include "implementations/plan_testing.h"

namespace tutti {
namespace tree_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int kManyRanks = 65536;

GroupLayout Layout(const std::vector<int>& task_of_rank) {
  return *GroupLayout::Create(task_of_rank);
}

TEST(TreeReduceTest, ReducesInLogarithmicallyManySteps) {
  for (int n = 1; n <= 33; ++n) {
    for (int root = 0; root < n; ++root) {
      EXPECT_LE(
          TransfersInARow("TreeReduce", {.layout = GroupLayout::Uniform(1, n),
                                         .type = CollectiveType::kReduce,
                                         .root = root}),
          CeilLog2(n) + (root == 0 ? 0 : 1))
          << n << " ranks, root " << root;
    }
    EXPECT_EQ(
        TransfersInARow("TreeReduce", {.layout = GroupLayout::Uniform(1, n),
                                       .type = CollectiveType::kAllReduce}),
        2 * CeilLog2(n));
  }
}

TEST(TreeReduceTest, EveryRankButTheRootSendsUpOnce) {
  const auto plans =
      PlansOf("TreeReduce", {.layout = GroupLayout::Uniform(1, 13),
                             .type = CollectiveType::kReduce,
                             .root = 5});
  for (int rank = 0; rank < 13; ++rank) {
    EXPECT_THAT(StepsOf(plans[rank], StepKind::kSend),
                SizeIs(rank == 5 ? 0 : 1));
    EXPECT_THAT(StepsOf(plans[rank], StepKind::kCopy), IsEmpty());
  }
}

TEST(TreeReduceTest, AllReduceSendsTwicePerRankButOne) {
  size_t sends = 0;
  for (const Schedule& plan :
       PlansOf("TreeReduce", {.layout = GroupLayout::Uniform(1, 13)})) {
    sends += StepsOf(plan, StepKind::kSend).size();
    EXPECT_THAT(StepsOf(plan, StepKind::kCopy), IsEmpty());
  }
  EXPECT_EQ(sends, 2u * 12);
}

TEST(TreeReduceTest, GroupsRanksFromLeftToRight) {
  const auto sum = [](int root) {
    return OutputOf("TreeReduce",
                    {.layout = GroupLayout::Uniform(1, 6),
                     .type = CollectiveType::kReduce,
                     .root = root},
                    root, 0);
  };
  EXPECT_EQ(sum(0), "f(((0.0+1.0)+(2.0+3.0))+(4.0+5.0))");
  EXPECT_EQ(sum(3), "f(((0.0+1.0)+2.0)+((3.0+4.0)+5.0))");
  EXPECT_EQ(sum(5), "f((((0.0+1.0)+(2.0+3.0))+4.0)+5.0)");
}

TEST(TreeReduceTest, EveryReceivedSumIsReadOnceByTheNextStep) {
  for (const Schedule& plan :
       PlansOf("TreeReduce", {.layout = GroupLayout::Uniform(1, 16)})) {
    const Lane& lane = plan.lanes[0];
    for (size_t i = 0; i < lane.size(); ++i) {
      if (lane[i].into.space != Space::kScratch) continue;
      ASSERT_EQ(lane[i].kind, StepKind::kRecv);
      EXPECT_EQ(lane[i + 1].kind, StepKind::kReduce);
      EXPECT_EQ(lane[i + 1].right, lane[i].into);
    }
  }
}

TEST(TreeReduceTest, WithoutOutputASumIsSetAside) {
  constexpr int kRoot = 5;
  const auto plans =
      PlansOf("TreeReduce", {.layout = GroupLayout::Uniform(1, 16),
                             .type = CollectiveType::kReduce,
                             .root = kRoot});
  for (int rank = 0; rank < 16; ++rank) {
    for (const Step& reduce : StepsOf(plans[rank], StepKind::kReduce)) {
      EXPECT_EQ(reduce.into, rank == kRoot ? Data(0) : Scratch(0));
    }
  }
}

TEST(TreeReduceTest, HoldsOnManyRanks) {
  EXPECT_EQ(Verify(AlgorithmNamed("TreeReduce"),
                   {.layout = GroupLayout::Uniform(1, kManyRanks),
                    .type = CollectiveType::kReduce,
                    .root = 12345}),
            absl::OkStatus());
  EXPECT_EQ(Verify(AlgorithmNamed("TreeReduce"),
                   {.layout = GroupLayout::Uniform(1, kManyRanks)}),
            absl::OkStatus());
}

VerifyCase Broadcast(const GroupLayout& layout, int root) {
  return {.layout = layout, .type = CollectiveType::kBroadcast, .root = root};
}

TEST(HierarchicalTreeBroadcastTest, TakesTheLogarithmsOfTasksAndDevices) {
  for (int num_tasks : {1, 2, 3, 8}) {
    for (int devices : {1, 2, 5, 8}) {
      for (int root = 0; root < num_tasks * devices; ++root) {
        EXPECT_LE(
            TransfersInARow(
                "HierarchicalTreeBroadcast",
                Broadcast(GroupLayout::Uniform(num_tasks, devices), root)),
            CeilLog2(num_tasks) + CeilLog2(devices));
      }
    }
  }
}

TEST(HierarchicalTreeBroadcastTest, EntersEachTaskOnce) {
  const GroupLayout layout = Layout({0, 1, 2, 0, 1, 2, 0, 2, 2, 3});
  for (int root = 0; root < layout.size(); ++root) {
    const auto plans =
        PlansOf("HierarchicalTreeBroadcast", Broadcast(layout, root));
    int between_tasks = 0;
    for (int rank = 0; rank < layout.size(); ++rank) {
      const auto receives = StepsOf(plans[rank], StepKind::kRecv);
      EXPECT_THAT(receives, SizeIs(rank == root ? 0 : 1));
      for (const Step& step : receives) {
        between_tasks += layout.task_of(step.peer) != layout.task_of(rank);
      }
    }
    EXPECT_EQ(between_tasks, layout.num_tasks() - 1);
  }
}

TEST(HierarchicalTreeBroadcastTest, SourceSendsFromItsInput) {
  const auto plans = PlansOf("HierarchicalTreeBroadcast",
                             Broadcast(GroupLayout::Uniform(2, 4), /*root=*/5));
  const auto sends = StepsOf(plans[5], StepKind::kSend);
  EXPECT_THAT(sends, SizeIs(3));
  for (const Step& send : sends) EXPECT_EQ(send.left, Input(0));
}

TEST(HierarchicalTreeBroadcastTest, LargeSubtreesAreServedFirst) {
  const auto plans = PlansOf("HierarchicalTreeBroadcast",
                             Broadcast(GroupLayout::Uniform(1, 8), /*root=*/0));
  std::vector<int> peers;
  for (const Step& send : StepsOf(plans[0], StepKind::kSend)) {
    peers.push_back(send.peer);
  }
  EXPECT_THAT(peers, ElementsAre(4, 2, 1));
}

TEST(HierarchicalTreeBroadcastTest, HoldsOnManyRanks) {
  for (const GroupLayout& layout :
       {GroupLayout::Uniform(kManyRanks, 1), GroupLayout::Uniform(8192, 8)}) {
    EXPECT_EQ(Verify(AlgorithmNamed("HierarchicalTreeBroadcast"),
                     Broadcast(layout, /*root=*/54321)),
              absl::OkStatus());
  }
}

VerifyCase InPieces(int num_ranks, int num_pieces, CollectiveType type) {
  return {.layout = GroupLayout::Uniform(1, num_ranks),
          .type = type,
          .subdiv_offsets = std::vector<int>(num_pieces)};
}

TEST(DoubleTreeReduceTest, APieceTakesOneStepMore) {
  for (int n = 2; n <= 33; ++n) {
    for (const int pieces : {1, 2, 7}) {
      EXPECT_LE(
          TransfersInARow("DoubleTreeReduce",
                          InPieces(n, pieces, CollectiveType::kAllReduce)),
          3 * CeilLog2(n) + pieces - 1);
    }
  }
}

TEST(DoubleTreeReduceTest, EveryRankSendsAndReceivesAtMostTwiceTheBuffer) {
  for (const int n : {2, 3, 8, 13}) {
    for (const Schedule& plan :
         PlansOf("DoubleTreeReduce",
                 InPieces(n, /*num_pieces=*/3, CollectiveType::kAllReduce))) {
      ASSERT_EQ(plan.num_chunks, 6);
      EXPECT_LE(StepsOf(plan, StepKind::kSend).size(), 12u);
      EXPECT_LE(StepsOf(plan, StepKind::kRecv).size(), 12u);
      EXPECT_THAT(StepsOf(plan, StepKind::kCopy), IsEmpty());
    }
  }
}

TEST(DoubleTreeReduceTest, KeepsTheOrderOfRanks) {
  const VerifyCase request = InPieces(6, 1, CollectiveType::kAllReduce);
  for (const int rank : {0, 3}) {
    EXPECT_EQ(OutputOf("DoubleTreeReduce", request, rank, 0),
              "f((0.0+(1.0+2.0))+(3.0+(4.0+5.0)))");
  }
}

TEST(DoubleTreeReduceTest, DifferentOffsetsAreDifferentTrees) {
  VerifyCase request = {.layout = GroupLayout::Uniform(2, 4),
                        .subdiv_offsets = {0, 1, 0}};
  EXPECT_EQ(OutputOf("DoubleTreeReduce", request, 0, 0).find("f("), 0u);
  const std::string first = OutputOf("DoubleTreeReduce", request, 0, 1);
  const std::string rotated = OutputOf("DoubleTreeReduce", request, 0, 3);
  EXPECT_LT(first.find("0.1"), first.find("1.1"));
  EXPECT_GT(rotated.find("0.3"), rotated.find("1.3"));
}

TEST(ChainBroadcastTest, APieceTakesOneStepMore) {
  for (const int n : {2, 3, 8}) {
    for (const int pieces : {1, 2, 7}) {
      VerifyCase request = InPieces(n, pieces, CollectiveType::kBroadcast);
      request.root = n - 1;
      EXPECT_EQ(TransfersInARow("ChainBroadcast", request), n - 2 + pieces);
    }
  }
}

TEST(ChainBroadcastTest, EntersEachTaskOnce) {
  const GroupLayout layout = Layout({0, 1, 2, 0, 1, 2, 0, 2, 2, 3});
  for (int root = 0; root < layout.size(); ++root) {
    VerifyCase request = Broadcast(layout, root);
    request.subdiv_offsets = {0};
    const auto plans = PlansOf("ChainBroadcast", request);
    int between_tasks = 0;
    for (int rank = 0; rank < layout.size(); ++rank) {
      for (const Step& step : StepsOf(plans[rank], StepKind::kRecv)) {
        between_tasks += layout.task_of(step.peer) != layout.task_of(rank);
      }
    }
    EXPECT_EQ(between_tasks, layout.num_tasks() - 1);
  }
}

TEST(DoubleTreeBroadcastTest, APieceTakesOneStepMore) {
  for (int n = 2; n <= 33; ++n) {
    for (const int pieces : {1, 2, 7}) {
      VerifyCase request = InPieces(n, pieces, CollectiveType::kBroadcast);
      request.root = n / 2;
      EXPECT_LE(TransfersInARow("DoubleTreeBroadcast", request),
                CeilLog2(n - 1) + pieces);
    }
  }
}

TEST(DoubleTreeBroadcastTest, NobodySendsMoreThanTheBuffer) {
  for (const int n : {2, 3, 8, 13}) {
    const auto plans = PlansOf("DoubleTreeBroadcast",
                               InPieces(n, 3, CollectiveType::kBroadcast));
    for (const Schedule& plan : plans) {
      ASSERT_EQ(plan.num_chunks, 6);
      EXPECT_LE(StepsOf(plan, StepKind::kSend).size(), 6u);
    }
    EXPECT_THAT(StepsOf(plans[0], StepKind::kSend), SizeIs(6));
  }
}

TEST(BarrierTest, TakesLogarithmicallyManyRounds) {
  for (int n = 1; n <= 65; ++n) {
    const VerifyCase request = {.layout = GroupLayout::Uniform(1, n),
                                .type = CollectiveType::kBarrier};
    EXPECT_EQ(TransfersInARow("Barrier", request), CeilLog2(n));
    for (const Schedule& plan : PlansOf("Barrier", request)) {
      EXPECT_THAT(StepsOf(plan, StepKind::kSend), SizeIs(CeilLog2(n)));
    }
  }
}

TEST(BarrierTest, PlansForManyRanksAreShort) {
  const GroupLayout layout = GroupLayout::Uniform(1, kManyRanks);
  for (int rank : {0, 1, kManyRanks / 2, kManyRanks - 1}) {
    const Schedule plan = AlgorithmNamed("Barrier").plan(
        {.layout = layout, .type = CollectiveType::kBarrier, .rank = rank});
    EXPECT_THAT(StepsOf(plan, StepKind::kSend), SizeIs(16));
    EXPECT_THAT(StepsOf(plan, StepKind::kRecv), SizeIs(16));
  }
}

}  // namespace tree_test
}  // namespace tutti
