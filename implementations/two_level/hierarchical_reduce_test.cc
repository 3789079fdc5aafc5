// Tests of all-reduces on two levels, of any two registered reductions.

#include "implementations/two_level/hierarchical_reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "implementations/plan_testing.h"
#include "schedule/engine/stand_in.h"
#include "schedule/proof/verifier.h"
#include "schedule/simulate/planned_outline.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {
namespace hierarchical_reduce_test {

using ::absl::StatusCode;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Optional;

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
      layouts.push_back(GroupLayout::Uniform(num_tasks, num_devices));
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

// Returns the number of chunks that a rank sends to other tasks. Sets
// `num_chunks` to the number of all chunks.
int NumSentToOtherTasks(const std::string& name, const GroupLayout& layout,
                        int rank, int* num_chunks) {
  const Schedule plan = PlansOf(name, {.layout = layout})[rank];
  *num_chunks = plan.num_chunks;
  int num_sent = 0;
  for (const Step& step : StepsOf(plan, StepKind::kSend)) {
    num_sent += layout.task_of(step.peer) != layout.task_of(rank) ? 1 : 0;
  }
  return num_sent;
}

TEST(HierarchicalBlocksTest, AreSharedByTheDevicesThatHaveTheSums) {
  const auto layout = GroupLayout::Uniform(4, 4);
  for (int rank = 0; rank < layout.size(); ++rank) {
    const bool leads = rank % 4 == 0;
    int num_chunks = 0;
    // Each device sends one of four blocks round a ring of four tasks.
    EXPECT_EQ(NumSentToOtherTasks("RingThenRing", layout, rank, &num_chunks),
              6);
    EXPECT_EQ(num_chunks, 16);
    EXPECT_EQ(
        NumSentToOtherTasks("RingReduceThenRing", layout, rank, &num_chunks),
        6);
    EXPECT_EQ(num_chunks, 16);
    // Only the first device has the sum, in one block or in three.
    EXPECT_EQ(
        NumSentToOtherTasks("TreeThenTree", layout, rank, &num_chunks) > 0,
        leads);
    EXPECT_EQ(num_chunks, 1);
    EXPECT_EQ(
        NumSentToOtherTasks("PiecesThenHalving", layout, rank, &num_chunks),
        leads ? 3 * 6 : 0);
    EXPECT_EQ(num_chunks, 3 * 4);
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
         {GroupLayout::Uniform(1, 6), GroupLayout::Uniform(6, 1),
          GroupLayout::Uniform(3, 5),
          *GroupLayout::Create({0, 1, 0, 1, 2, 2})}) {
      EXPECT_THAT(OwnOutline(name, layout), IsOk()) << name;
    }
  }
  const auto ring = OwnOutline("RingThenRing", GroupLayout::Uniform(1000, 100));
  ASSERT_THAT(ring, IsOk());
  EXPECT_EQ((*ring)->size().num_chunks, 100 * 1000);
  EXPECT_EQ((*ring)->size().num_rounds, 1 + 99 + 2 * 999 + 7);
  EXPECT_EQ((*ring)->size().period, 100);
  const auto one_each =
      OwnOutline("RingThenRing", GroupLayout::Uniform(1000, 1));
  ASSERT_THAT(one_each, IsOk());
  EXPECT_TRUE((*one_each)->size().is_ring);
}

TEST(HierarchicalOutlineTest, APartWithoutOneIsPlannedIfItIsNotTooLarge) {
  EXPECT_THAT(OwnOutline("RingThenPlanned", GroupLayout::Uniform(20, 100)),
              IsOk());
  EXPECT_THAT(
      OwnOutline("RingThenPlanned", GroupLayout::Uniform(2000, 2)).status(),
      IsResourceExhausted(
          "there is no outline: ShuffleAsPlanned between tasks: "
          "cannot plan all_reduce on 2000x1"));
}

TEST(HierarchicalOutlineTest, WithoutOneTheReasonIsSaid) {
  const auto even = GroupLayout::Uniform(2, 3);
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
    const auto inside = GroupLayout::Uniform(1, 8);
    EXPECT_DOUBLE_EQ(Cost("DoublingThenShuffle", inside, bytes),
                     Cost("RecursiveDoublingReduce", inside, bytes));
    const auto between = GroupLayout::Uniform(8, 1);
    EXPECT_DOUBLE_EQ(Cost("DoublingThenShuffle", between, bytes),
                     Cost("ShuffleReduce", between, bytes));
  }
}

// Groups of this size would take seconds to plan.
TEST(HierarchicalPriceTest, LargeGroupsHaveAPrice) {
  for (const char* name : {"RingThenRing", "LevelsThenTrees"}) {
    const double few = Cost(name, GroupLayout::Uniform(1'000, 8), 1 << 20);
    const double many = Cost(name, GroupLayout::Uniform(100'000, 8), 1 << 20);
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
  const auto layout = GroupLayout::Uniform(2, 2);
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
  const auto layout = GroupLayout::Uniform(2, 2);
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

}  // namespace hierarchical_reduce_test
}  // namespace tutti
