#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "implementations/parts/binomial_tree.h"
#include "implementations/plan_testing.h"
#include "implementations/two_level/hierarchical_reduce.h"
#include "implementations/two_level/hierarchy.h"
#include "schedule/engine/stand_in.h"
#include "schedule/proof/verifier.h"
#include "schedule/simulate/outline_testing.h"
#include "schedule/simulate/planned_outline.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {
namespace hierarchical_test {

using ::absl::StatusCode;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

GroupLayout Uniform(int tasks, int devices) {
  return GroupLayout::Uniform(tasks, devices);
}

// --- hierarchical ------------------------------------------------------------

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
    const int task = request.layout.task_of(rank);
    sent.push_back(0);
    for (const Step& send : StepsOf(plans[rank], StepKind::kSend)) {
      if (request.layout.task_of(send.peer) == task) continue;
      sent.back() += send.left.num_chunks;
    }
  }
  return sent;
}

TEST(HierarchicalReduceTest, ADeviceSendsTheLeastPossibleToOtherTasks) {
  for (const char* name : kReduces) {
    for (const int num_tasks : {2, 4, 8}) {
      for (const int num_devices : {1, 2, 3, 8}) {
        // Each rank has a chunk: 2 (T - 1) / T of the T chunks of a block.
        const auto layout = Uniform(num_tasks, num_devices);
        EXPECT_THAT(SentToOtherTasks(name, {.layout = layout}),
                    Each(2 * (num_tasks - 1)))
            << name << " on " << layout.ToString();
      }
    }
  }
  EXPECT_THAT(
      SentToOtherTasks("HierarchicalRingReduce", {.layout = Uniform(5, 3)}),
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
      const VerifyCase request = {.layout = Uniform(num_tasks, num_devices)};
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
      const VerifyCase request = {.layout = Uniform(num_tasks, num_devices)};
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
  const VerifyCase request = {.layout = Uniform(3, 3)};
  EXPECT_EQ(OutputOf("ShuffleThenShuffle", request, 8, 0),
            "f((0.0+1.0+2.0)+(3.0+4.0+5.0)+(6.0+7.0+8.0))");
}

TEST(HierarchicalReduceTest, DoubleTreesTakeAStepForTwoChunks) {
  for (const int num_tasks : {2, 3, 8, 13}) {
    const VerifyCase request = {.layout = Uniform(num_tasks, 4)};
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
  const VerifyCase request = {.layout = Uniform(2, 2)};
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(OutputOf(kReduces[0], request, rank, 0),
              "f((0.0+1.0)+(2.0+3.0))");
    EXPECT_EQ(OutputOf(kReduces[1], request, rank, 3),
              "f((0.3+1.3)+(2.3+3.3))");
  }
}

TEST(HierarchicalReduceTest, OneLevelIsThatOfThePart) {
  const VerifyCase across = {.layout = Uniform(5, 1)};
  const auto flat = PlansOf("RecursiveHalvingDoublingReduce", across);
  const auto plans = PlansOf(kReduces[0], across);
  for (int rank = 0; rank < 5; ++rank) {
    ASSERT_EQ(plans[rank].lanes.size(), flat[rank].lanes.size());
    EXPECT_EQ(StepsOf(plans[rank], StepKind::kSend).size(),
              StepsOf(flat[rank], StepKind::kSend).size());
  }
  // Within one task the reduce-scatter completes the sums.
  for (const Schedule& plan : PlansOf(kReduces[1], {.layout = Uniform(1, 5)})) {
    EXPECT_TRUE(StepsOf(plan, StepKind::kCopy).empty());
  }
}

// Collectives that bring each pair of ranks a block.
struct OfBlocks {
  const char* name;
  CollectiveType type;
  // Blocks that ranks of tasks of different sizes send to other tasks.
  std::vector<int> sent_by_leaders;
};

class HierarchicalOfBlocksTest : public testing::TestWithParam<OfBlocks> {};

INSTANTIATE_TEST_SUITE_P(GatherAndScatter, HierarchicalOfBlocksTest,
                         testing::Values(
                             // All blocks go to two other tasks: 12 in total.
                             OfBlocks{"HierarchicalGather",
                                      CollectiveType::kAllGather,
                                      {6, 0, 0, 2, 4, 0}},
                             // Each task sends the sums for all others once.
                             OfBlocks{"HierarchicalReduceScatter",
                                      CollectiveType::kReduceScatter,
                                      {3, 0, 0, 5, 4, 0}}),
                         [](const auto& info) { return info.param.name; });

TEST_P(HierarchicalOfBlocksTest, ADeviceSendsTheLeastPossibleToOtherTasks) {
  const auto& [name, type, sent_by_leaders] = GetParam();
  for (const int num_tasks : {2, 3, 4, 8}) {
    for (const int num_devices : {1, 2, 3, 8}) {
      const VerifyCase request = {.layout = Uniform(num_tasks, num_devices),
                                  .type = type};
      EXPECT_THAT(SentToOtherTasks(name, request), Each(num_tasks - 1));
      EXPECT_EQ(TransfersInARow(name, request),
                CeilLog2(num_tasks) + CeilLog2(num_devices));
    }
  }
}

TEST_P(HierarchicalOfBlocksTest, LeadersSendForTasksOfDifferentSizes) {
  const auto& [name, type, sent_by_leaders] = GetParam();
  EXPECT_EQ(SentToOtherTasks(
                name, {.layout = Layout({0, 0, 0, 1, 2, 2}), .type = type}),
            sent_by_leaders);
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
  EXPECT_TRUE(IsEven(Uniform(1, 3)));
}

TEST(HierarchyTest, APartIsPricedOnItsLevel) {
  const auto layout = Uniform(4, 2);
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

// --- hierarchical reduce -----------------------------------------------------

// Plans a reduce in three separate pieces, as no other algorithm does.
Schedule PlanPieces(const PlanRequest& request) {
  ScheduleBuilder builder(/*num_chunks=*/3);
  for (int chunk = 0; chunk < 3; ++chunk) {
    auto lane = builder.AddLane();
    if (request.rank != request.root) {
      lane.Send(request.root, /*tag=*/chunk, Input(chunk));
      continue;
    }
    Slot sum = Input(chunk);
    for (int from = 0; from < request.layout.size(); ++from) {
      if (from == request.rank) continue;
      lane.Recv(from, /*tag=*/chunk, Scratch(chunk, from));
      lane.Reduce(Data(chunk), sum, Scratch(chunk, from));
      sum = Data(chunk);
    }
    lane.CopyAndFinish(Data(chunk), sum);
  }
  return builder.Build();
}

REGISTER_COLLECTIVE(
    InPieces, Scheduled({.traits = {.collectives = {CollectiveType::kReduce}},
                         .plan = PlanPieces}));

// Pairs of levels. Inside tasks they reduce-scatter, reduce or all-reduce.
// Between tasks they all-reduce in one chunk, in a chunk for each task or
// subdivision, or in an order of tasks.
REGISTER_COLLECTIVE(RingThenRing,
                    Hierarchical<"RingReduceScatter", "RingReduce">());
REGISTER_COLLECTIVE(
    DirectThenDoubling,
    Hierarchical<"DirectReduceScatter", "RecursiveDoublingReduce">());
REGISTER_COLLECTIVE(
    LevelsThenTrees,
    Hierarchical<"HierarchicalReduceScatter", "DoubleTreeReduce">());
REGISTER_COLLECTIVE(TreeThenTree, Hierarchical<"TreeReduce", "TreeReduce">());
REGISTER_COLLECTIVE(
    PiecesThenHalving,
    Hierarchical<"InPieces", "RecursiveHalvingDoublingReduce">());
REGISTER_COLLECTIVE(RingReduceThenRing,
                    Hierarchical<"RingReduce", "RingReduce">());
REGISTER_COLLECTIVE(ShuffleReduceThenTrees,
                    Hierarchical<"ShuffleReduce", "DoubleTreeReduce">());
REGISTER_COLLECTIVE(DoublingThenShuffle,
                    Hierarchical<"RecursiveDoublingReduce", "ShuffleReduce">());
REGISTER_COLLECTIVE(
    TreesThenHalving,
    Hierarchical<"DoubleTreeReduce", "RecursiveHalvingDoublingReduce">());

class HierarchicalTest : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(
    OfAnyTwo, HierarchicalTest,
    testing::Values("RingThenRing", "DirectThenDoubling", "LevelsThenTrees",
                    "TreeThenTree", "PiecesThenHalving", "RingReduceThenRing",
                    "ShuffleReduceThenTrees", "DoublingThenShuffle",
                    "TreesThenHalving"),
    [](const testing::TestParamInfo<const char*>& info) { return info.param; });

std::vector<GroupLayout> Layouts() {
  std::vector<GroupLayout> layouts = {
      *GroupLayout::Create({0, 0, 0, 1, 2, 2}),
      *GroupLayout::Create({0, 1, 0, 1, 2, 2}),
      *GroupLayout::Create({2, 1, 1, 0, 0, 0, 0})};
  for (const int num_tasks : {1, 2, 3, 4, 7}) {
    for (const int num_devices : {1, 2, 3, 5, 8}) {
      layouts.push_back(Uniform(num_tasks, num_devices));
    }
  }
  return layouts;
}

TEST_P(HierarchicalTest, ReducesOnAnyLayout) {
  for (const GroupLayout& layout : Layouts()) {
    for (const InPlace in_place : {InPlace::kNone, InPlace::kAll,
                                   InPlace::kEvenRanks, InPlace::kOddRanks}) {
      EXPECT_THAT(Verify(AlgorithmNamed(GetParam()),
                         {.layout = layout, .in_place = in_place}),
                  IsOk());
    }
  }
}

TEST_P(HierarchicalTest, TheOutlineIsThatOfThePlans) {
  for (const GroupLayout& layout : Layouts()) {
    EXPECT_THAT(CheckOutline(AlgorithmNamed(GetParam()), {.layout = layout}),
                IsOk());
  }
}

TEST_P(HierarchicalTest, Runs) {
  LocalJob job({.num_tasks = 3, .devices_per_task = 4});
  for (const LocalJob::Call* call :
       job.RunAll(job.AllReduceRequest(37, GetParam()))) {
    ASSERT_THAT(call->status, Optional(IsOk()));
    EXPECT_THAT(call->result(), Each(12 * 13 / 2));
  }
}

TEST(HierarchicalBlocksTest, AreSharedByTheDevicesThatHaveTheSums) {
  const VerifyCase request = {.layout = Uniform(4, 4)};
  const auto num_chunks = [&](const char* name) {
    return PlansOf(name, request)[0].num_chunks;
  };
  // Each device sends one of four blocks round a ring of four tasks.
  for (const char* name : {"RingThenRing", "RingReduceThenRing"}) {
    EXPECT_THAT(SentToOtherTasks(name, request), Each(6));
    EXPECT_EQ(num_chunks(name), 16);
  }
  // Only the first device has the sum, in one block or in three.
  EXPECT_EQ(num_chunks("TreeThenTree"), 1);
  EXPECT_EQ(num_chunks("PiecesThenHalving"), 3 * 4);
  const auto whole = SentToOtherTasks("TreeThenTree", request);
  const auto pieces = SentToOtherTasks("PiecesThenHalving", request);
  for (int rank = 0; rank < 16; ++rank) {
    const bool leads = rank % 4 == 0;
    EXPECT_EQ(whole[rank] > 0, leads);
    EXPECT_EQ(pieces[rank], leads ? 3 * 6 : 0);
  }
}

// --- Outlines ----------------------------------------------------------------

// ShuffleReduce without its outline.
REGISTER_COLLECTIVE(
    ShuffleAsPlanned,
    Scheduled({.traits = {.collectives = {CollectiveType::kAllReduce}},
               .plan = [](const PlanRequest& request) {
                 return AlgorithmNamed("ShuffleReduce").plan(request);
               }}));
REGISTER_COLLECTIVE(RingThenPlanned,
                    Hierarchical<"RingReduceScatter", "ShuffleAsPlanned">());

// Plans a reduce-scatter in turn: a rank sends its part to the next rank after
// it has its own block.
Schedule PlanInTurn(const PlanRequest& request) {
  const int size = request.layout.size();
  const int rank = request.rank;
  ScheduleBuilder builder(size);
  auto lane = builder.AddLane();
  for (int block = 0; block < size; ++block) {
    if (block != rank) {
      lane.Send(block, /*tag=*/0, Input(block));
      continue;
    }
    Slot sum = Input(block);
    for (int from = 0; from < size; ++from) {
      if (from == rank) continue;
      lane.Recv(from, /*tag=*/0, Scratch(block, from));
      lane.Reduce(Data(block), sum, Scratch(block, from));
      sum = Data(block);
    }
    lane.CopyAndFinish(Data(block), sum);
  }
  return builder.Build();
}

REGISTER_COLLECTIVE(
    InTurn,
    Scheduled({.traits = {.collectives = {CollectiveType::kReduceScatter}},
               .plan = PlanInTurn}));
REGISTER_COLLECTIVE(InTurnThenRing, Hierarchical<"InTurn", "RingReduce">());

// Makes the outline without a plan of the whole.
absl::StatusOr<std::unique_ptr<const Outline>> OwnOutline(
    const std::string& name, const GroupLayout& layout) {
  return OutlineOf(AlgorithmNamed(name), {.layout = layout}, /*max_steps=*/0);
}

TEST(HierarchicalOutlineTest, IsMadeOfThoseOfTheParts) {
  for (const char* name :
       {"RingThenRing", "DirectThenDoubling", "LevelsThenTrees"}) {
    for (const GroupLayout& layout :
         {Uniform(1, 6), Uniform(6, 1), Uniform(3, 5),
          *GroupLayout::Create({0, 1, 0, 1, 2, 2})}) {
      EXPECT_THAT(OwnOutline(name, layout), IsOk()) << name;
    }
  }
  const auto ring = OwnOutline("RingThenRing", Uniform(1000, 100));
  ASSERT_THAT(ring, IsOk());
  EXPECT_EQ((*ring)->size().num_chunks, 100 * 1000);
  EXPECT_EQ((*ring)->size().num_rounds, 1 + 99 + 2 * 999 + 7);
  EXPECT_EQ((*ring)->size().period, 100);
  const auto one_each = OwnOutline("RingThenRing", Uniform(1000, 1));
  ASSERT_THAT(one_each, IsOk());
  EXPECT_TRUE((*one_each)->size().is_ring);
}

TEST(HierarchicalOutlineTest, APartWithoutOneIsPlannedIfItIsNotTooLarge) {
  EXPECT_THAT(OwnOutline("RingThenPlanned", Uniform(20, 100)), IsOk());
  EXPECT_THAT(OwnOutline("RingThenPlanned", Uniform(2000, 2)).status(),
              IsResourceExhausted(
                  "there is no outline: ShuffleAsPlanned between tasks: "
                  "cannot plan all_reduce on 2000x1"));
}

TEST(HierarchicalOutlineTest, WithoutOneTheReasonIsSaid) {
  const auto even = Uniform(2, 3);
  const auto refused = [](const char* why) { return IsResourceExhausted(why); };
  EXPECT_THAT(OwnOutline("RingThenRing", *GroupLayout::Create({0, 0, 1})),
              refused("tasks have different numbers of devices"));
  for (const char* name : {"TreeThenTree", "PiecesThenHalving",
                           "RingReduceThenRing", "DoublingThenShuffle"}) {
    EXPECT_THAT(OwnOutline(name, even),
                refused(" inside tasks does not bring each device a block"));
  }
  EXPECT_THAT(OwnOutline("InTurnThenRing", even),
              refused("InTurn inside tasks does not bring all devices their "
                      "blocks in its last round"));
}

double Cost(const std::string& name, const GroupLayout& layout, int64_t bytes) {
  const auto factory = *CollectiveRegistry::Global().Find(name);
  return factory->traits().cost_seconds({.layout = layout, .bytes = bytes});
}

TEST(HierarchicalPriceTest, OneLevelCostsWhatThePartDoes) {
  for (const int64_t bytes : {0, 1 << 10, 1 << 26}) {
    const auto inside = Uniform(1, 8);
    EXPECT_DOUBLE_EQ(Cost("DoublingThenShuffle", inside, bytes),
                     Cost("RecursiveDoublingReduce", inside, bytes));
    const auto between = Uniform(8, 1);
    EXPECT_DOUBLE_EQ(Cost("DoublingThenShuffle", between, bytes),
                     Cost("ShuffleReduce", between, bytes));
  }
}

// Groups of this size would take seconds to plan.
TEST(HierarchicalPriceTest, LargeGroupsHaveAPrice) {
  for (const char* name : {"RingThenRing", "LevelsThenTrees"}) {
    const double few = Cost(name, Uniform(1'000, 8), 1 << 20);
    const double many = Cost(name, Uniform(100'000, 8), 1 << 20);
    EXPECT_GT(many, 10 * few);
    EXPECT_TRUE(std::isfinite(many));
  }
}

// --- What cannot be composed -------------------------------------------------

REGISTER_COLLECTIVE(NobodyInside, Hierarchical<"Absent", "RingReduce">());
REGISTER_COLLECTIVE(NobodyBetween,
                    Hierarchical<"RingReduceScatter", "Absent">());
REGISTER_COLLECTIVE(GatherInside, Hierarchical<"RingGather", "RingReduce">());
REGISTER_COLLECTIVE(ScatterBetween,
                    Hierarchical<"RingReduceScatter", "RingReduceScatter">());
REGISTER_COLLECTIVE(CodeBetween,
                    Hierarchical<"RingReduceScatter", "LocalReduce">());
REGISTER_COLLECTIVE(OfItself, Hierarchical<"RingReduceScatter", "OfItself">());
REGISTER_COLLECTIVE(PassThenNobody,
                    Hierarchical<"LocalReduce", "NobodyInside">());
REGISTER_COLLECTIVE(PassThenAbsent, Hierarchical<"LocalReduce", "Absent">());
REGISTER_COLLECTIVE(PassThenGather,
                    Hierarchical<"LocalReduce", "RingGather">());
REGISTER_COLLECTIVE(PassThenPass, Hierarchical<"LocalReduce", "LocalReduce">());
REGISTER_COLLECTIVE(PassThenItself,
                    Hierarchical<"LocalReduce", "PassThenItself">());

double OneSecond(const CostQuery& /*query*/) { return 1; }

// All-reduces that do not fit as parts: not everywhere, not for all ops, or not
// to the same bits.
REGISTER_COLLECTIVE(
    OfSums,
    Scheduled({.traits = {.collectives = {CollectiveType::kAllReduce},
                          .why_not_ops =
                              [](DType, const MergeOp&, const FinalOp&) {
                                return std::string();
                              },
                          .cost_seconds = OneSecond},
               .plan = PlanPieces}));
REGISTER_COLLECTIVE(
    OfOneProcess,
    Scheduled({.traits = {.collectives = {CollectiveType::kAllReduce},
                          .needs_one_process = true},
               .plan = PlanPieces}));
REGISTER_COLLECTIVE(
    OfSomeDevices,
    Scheduled({.traits = {.collectives = {CollectiveType::kAllReduce},
                          .device_types = {"CPU"}},
               .plan = PlanPieces}));
REGISTER_COLLECTIVE(
    OfChance, Scheduled({.traits = {.collectives = {CollectiveType::kAllReduce},
                                    .determinism = Determinism::kNotGuaranteed},
                         .plan = PlanPieces}));
REGISTER_COLLECTIVE(SumsInside, Hierarchical<"OfSums", "RingReduce">());
REGISTER_COLLECTIVE(PassThenSums, Hierarchical<"LocalReduce", "OfSums">());
REGISTER_COLLECTIVE(OneProcessBetween,
                    Hierarchical<"RingReduceScatter", "OfOneProcess">());
REGISTER_COLLECTIVE(SomeDevicesInside,
                    Hierarchical<"OfSomeDevices", "RingReduce">());
REGISTER_COLLECTIVE(ChanceBetween,
                    Hierarchical<"RingReduceScatter", "OfChance">());

// Claims to be made of steps, but is not.
class Pretender : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveContext(
      CollectiveContext* /*context*/) override {
    return absl::OkStatus();
  }
  void Run(const CollectiveContext& /*context*/, StatusCallback done) override {
    std::move(done)(absl::OkStatus());
  }
};
REGISTER_COLLECTIVE(
    Pretending,
    Implemented<Pretender>({.summary = "for a test",
                            .collectives = {CollectiveType::kAllReduce},
                            .is_made_of_steps = true}));
REGISTER_COLLECTIVE(PassThenPretending,
                    Hierarchical<"LocalReduce", "Pretending">());
REGISTER_COLLECTIVE(PassThenLevels,
                    Hierarchical<"LocalReduce", "LocalThenRing">());

struct Refused {
  const char* name;
  StatusCode code;
  const char* text;
};

class RefusedHierarchicalTest : public testing::TestWithParam<Refused> {};

INSTANTIATE_TEST_SUITE_P(
    Levels, RefusedHierarchicalTest,
    testing::Values(
        Refused{"NobodyInside", StatusCode::kNotFound, "\"Absent\""},
        Refused{"NobodyBetween", StatusCode::kNotFound, "\"Absent\""},
        Refused{"GatherInside", StatusCode::kInvalidArgument,
                "RingGather does not reduce, as the level inside tasks has to"},
        Refused{"ScatterBetween", StatusCode::kInvalidArgument,
                "RingReduceScatter does not all-reduce, as the level between "
                "tasks has to"},
        Refused{"CodeBetween", StatusCode::kInvalidArgument,
                "LocalReduce is no schedule of one level, as each level has to "
                "be"},
        Refused{"OfItself", StatusCode::kInvalidArgument,
                "OfItself is no schedule of one level"},
        Refused{"PassThenNobody", StatusCode::kNotFound, "\"Absent\""},
        Refused{"PassThenAbsent", StatusCode::kNotFound, "\"Absent\""},
        Refused{"SumsInside", StatusCode::kInvalidArgument,
                "OfSums cannot be a part of another one: it does not reduce "
                "with all ops"},
        Refused{"PassThenSums", StatusCode::kInvalidArgument,
                "OfSums cannot be a part"},
        Refused{"OneProcessBetween", StatusCode::kInvalidArgument,
                "it needs one process"},
        Refused{"SomeDevicesInside", StatusCode::kInvalidArgument,
                "it does not run on all devices"},
        Refused{"ChanceBetween", StatusCode::kInvalidArgument,
                "its results may differ from run to run"},
        Refused{"PassThenGather", StatusCode::kInvalidArgument,
                "RingGather is no schedule that all-reduces"},
        Refused{"PassThenPass", StatusCode::kInvalidArgument,
                "LocalReduce is no schedule that all-reduces"},
        Refused{"PassThenPretending", StatusCode::kInvalidArgument,
                "Pretending is no schedule that all-reduces"},
        Refused{"PassThenLevels", StatusCode::kInvalidArgument,
                "LocalThenRing is no schedule that all-reduces"},
        Refused{"PassThenItself", StatusCode::kInvalidArgument,
                "PassThenItself is no schedule that all-reduces"}),
    [](const testing::TestParamInfo<Refused>& info) {
      return info.param.name;
    });

TEST_P(RefusedHierarchicalTest, IsRefusedWithTheReason) {
  const Refused& refused = GetParam();
  LocalJob job({.num_tasks = 2, .devices_per_task = 2});
  for (const LocalJob::Call* call :
       job.RunAll(job.AllReduceRequest(8, refused.name))) {
    EXPECT_THAT(call->status,
                Optional(StatusIs(refused.code, HasSubstr(refused.text))));
  }
  const auto factory = *CollectiveRegistry::Global().Find(refused.name);
  EXPECT_THAT(StandInOf(*factory).status(),
              StatusIs(refused.code, HasSubstr(refused.text)));
}

// Such an error once listed all names, in one row of `tutti explain`.
TEST(HierarchicalTest, APartThatIsNotThereIsNamedAlone) {
  for (const char* name :
       {"NobodyInside", "NobodyBetween", "PassThenNobody", "PassThenAbsent"}) {
    const auto factory = *CollectiveRegistry::Global().Find(name);
    EXPECT_THAT(CheckParts(factory->traits()),
                StatusIs(StatusCode::kNotFound,
                         "no implementation is named \"Absent\""));
  }
}

TEST_P(RefusedHierarchicalTest, HasNoPrice) {
  const auto factory = *CollectiveRegistry::Global().Find(GetParam().name);
  const auto layout = Uniform(2, 2);
  EXPECT_FALSE(std::isfinite(
      factory->traits().cost_seconds({.layout = layout, .bytes = 1 << 20})));
}

// Invalid plans.
Schedule PlanNoChunks(const PlanRequest& /*request*/) {
  return {.num_chunks = 0, .lanes = {{{.into = Data(0), .left = Input(0)}}}};
}
Schedule PlanTooManyChunks(const PlanRequest& /*request*/) {
  return {.num_chunks = 1 << 28};
}
Schedule PlanAnotherChunk(const PlanRequest& /*request*/) {
  return {.num_chunks = 1, .lanes = {{{.into = Data(7), .left = Input(7)}}}};
}
Algorithm WithoutPlan(Schedule (*plan)(const PlanRequest& request)) {
  return {.traits = {.collectives = {CollectiveType::kAllReduce},
                     .cost_seconds = OneSecond},
          .plan = plan};
}
REGISTER_COLLECTIVE(OfNoChunks, Scheduled(WithoutPlan(PlanNoChunks)));
REGISTER_COLLECTIVE(OfTooManyChunks, Scheduled(WithoutPlan(PlanTooManyChunks)));
REGISTER_COLLECTIVE(OfAnotherChunk, Scheduled(WithoutPlan(PlanAnotherChunk)));
REGISTER_COLLECTIVE(NoChunksInside, Hierarchical<"OfNoChunks", "RingReduce">());
REGISTER_COLLECTIVE(NoChunksBetween,
                    Hierarchical<"RingReduceScatter", "OfNoChunks">());
REGISTER_COLLECTIVE(PassThenNoChunks,
                    Hierarchical<"LocalReduce", "OfNoChunks">());
REGISTER_COLLECTIVE(TooManyChunksInside,
                    Hierarchical<"OfTooManyChunks", "RingReduce">());
REGISTER_COLLECTIVE(TooManyChunksBetween,
                    Hierarchical<"RingReduceScatter", "OfTooManyChunks">());
REGISTER_COLLECTIVE(AnotherChunkInside,
                    Hierarchical<"OfAnotherChunk", "RingReduce">());
REGISTER_COLLECTIVE(AnotherChunkBetween,
                    Hierarchical<"RingReduceScatter", "OfAnotherChunk">());
REGISTER_COLLECTIVE(PassThenAnotherChunk,
                    Hierarchical<"LocalReduce", "OfAnotherChunk">());

class SpoiltPartTest : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(
    Levels, SpoiltPartTest,
    testing::Values("NoChunksInside", "NoChunksBetween", "PassThenNoChunks",
                    "TooManyChunksInside", "TooManyChunksBetween",
                    "AnotherChunkInside", "AnotherChunkBetween",
                    "PassThenAnotherChunk"),
    [](const auto& info) { return info.param; });

// A price does not run the part.
TEST_P(SpoiltPartTest, IsAnErrorOfThePlanAndDoesNoHarmBefore) {
  const auto factory = *CollectiveRegistry::Global().Find(GetParam());
  const auto layout = Uniform(2, 2);
  factory->traits().cost_seconds({.layout = layout, .bytes = 1 << 20});
  const auto stand_in = StandInOf(*factory);
  ASSERT_THAT(stand_in.status(), IsOk());
  EXPECT_THAT(Verify(stand_in->algorithm,
                     {.layout = layout, .type = CollectiveType::kAllReduce}),
              IsInvalidArgument("chunk"));
  LocalJob job({.num_tasks = 2, .devices_per_task = 2});
  for (const LocalJob::Call* call :
       job.RunAll(job.AllReduceRequest(8, GetParam()))) {
    EXPECT_THAT(call->status, Optional(IsInvalidArgument("chunk")));
  }
}

}  // namespace hierarchical_test
}  // namespace tutti
