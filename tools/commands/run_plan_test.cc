#include "tools/commands/run_plan.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exit_status.h"

namespace tutti {
namespace run_plan_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

NpyHeader Floats(const std::vector<int64_t>& dims) {
  return {DType::kFloat32, *TensorShape::Create(dims)};
}

std::vector<InputFile> Files(const std::vector<NpyHeader>& headers) {
  std::vector<InputFile> files;
  for (const NpyHeader& header : headers) {
    files.push_back({absl::StrCat("rank", files.size(), ".npy"), header});
  }
  return files;
}

std::vector<InputFile> Alike(int count) {
  return Files(std::vector<NpyHeader>(count, Floats({4, 3})));
}

std::string ErrorOf(const RunSettings& settings,
                    const std::vector<InputFile>& files, int exit_status) {
  const auto plan = PlanRun(settings, files);
  EXPECT_EQ(ExitStatus(plan.status()), exit_status) << plan.status();
  return std::string(plan.status().message());
}

TEST(RunPlanTest, EveryRankReducesItsFile) {
  const auto plan =
      PlanRun({.spec = {.type = CollectiveType::kAllReduce, .reduction = "sum"},
               .algorithm = "RingReduce",
               .determinism = Determinism::kFixedLayout},
              Alike(4));
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->description, "all_reduce sum float32[4,3] on 4 ranks");
  ASSERT_EQ(plan->ranks.size(), 4u);
  for (int rank = 0; rank < 4; ++rank) {
    const PlannedRank& planned = plan->ranks[rank];
    EXPECT_EQ(planned.input, rank);
    EXPECT_TRUE(planned.has_output);
    EXPECT_EQ(planned.request.rank, rank);
    EXPECT_EQ(planned.request.group_size, 4);
    EXPECT_EQ(planned.request.shape.ToString(), "[4,3]");
    EXPECT_EQ(planned.request.impl_details.implementation, "RingReduce");
    EXPECT_EQ(planned.request.impl_details.determinism,
              Determinism::kFixedLayout);
  }
}

TEST(RunPlanTest, GroupsAreConsecutiveAndApart) {
  const auto plan = PlanRun(
      {.spec = {.type = CollectiveType::kReduce, .reduction = "sum", .root = 1},
       .groups = 2},
      Files({Floats({2}), Floats({2}), Floats({5}), Floats({5})}));
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->description,
            "reduce sum to rank 1 float32[2], float32[5] on 2 groups of 2 "
            "ranks");
  for (int i = 0; i < 4; ++i) {
    const PlannedRank& planned = plan->ranks[i];
    EXPECT_EQ(planned.input, i);
    EXPECT_EQ(planned.request.group_key, i / 2);
    EXPECT_EQ(planned.request.rank, i % 2);
    EXPECT_EQ(planned.has_output, i % 2 == 1);
  }
}

TEST(RunPlanTest, OnlyTheRootOfABroadcastNeedsItsFile) {
  const auto plan =
      PlanRun({.spec = {.type = CollectiveType::kBroadcast, .root = 1},
               .groups = 2,
               .devices = 6},
              Files({Floats({2}), Floats({5})}));
  ASSERT_THAT(plan, IsOk());
  for (int i = 0; i < 6; ++i) {
    const PlannedRank& planned = plan->ranks[i];
    EXPECT_EQ(planned.input.has_value(), i % 3 == 1);
    EXPECT_EQ(planned.request.shape.ToString(), i < 3 ? "[2]" : "[5]");
  }
  EXPECT_EQ(plan->ranks[1].input, 0);
  EXPECT_EQ(plan->ranks[4].input, 1);
}

TEST(RunPlanTest, OfOneFilePerRankABroadcastReadsTheRoots) {
  const auto plan = PlanRun(
      {.spec = {.type = CollectiveType::kBroadcast, .root = 2}}, Alike(3));
  ASSERT_THAT(plan, IsOk());
  EXPECT_FALSE(plan->ranks[0].input.has_value());
  EXPECT_FALSE(plan->ranks[1].input.has_value());
  EXPECT_EQ(plan->ranks[2].input, 2);
}

TEST(RunPlanTest, ABarrierTakesDevicesAndNoFiles) {
  const RunSettings settings = {.spec = {.type = CollectiveType::kBarrier},
                                .devices = 8};
  const auto plan = PlanRun(settings, {});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->description, "barrier on 8 ranks");
  EXPECT_EQ(plan->ranks.size(), 8u);
  EXPECT_FALSE(plan->ranks[0].input.has_value());
  EXPECT_FALSE(plan->ranks[0].has_output);
  EXPECT_THAT(ErrorOf(settings, Alike(8), 2), HasSubstr("no --input"));
  EXPECT_THAT(ErrorOf({.spec = settings.spec}, {}, 2), HasSubstr("--devices"));
}

TEST(RunPlanTest, DifferentShapesNameBothFilesAndBothShapes) {
  EXPECT_THAT(ErrorOf({.spec = {.type = CollectiveType::kAllReduce}},
                      Files({Floats({3}), Floats({3}), Floats({4})}), 1),
              AllOf(HasSubstr("rank0.npy holds float32[3]"),
                    HasSubstr("rank2.npy holds float32[4]")));
}

TEST(RunPlanTest, DifferentDTypesNameBothFilesAndBothDTypes) {
  for (CollectiveType type :
       {CollectiveType::kAllReduce, CollectiveType::kAllGather,
        CollectiveType::kBroadcast, CollectiveType::kGather}) {
    EXPECT_THAT(
        ErrorOf({.spec = {.type = type}},
                Files({Floats({3}), {DType::kInt8, *TensorShape::Create({3})}}),
                1),
        AllOf(HasSubstr("rank0.npy holds float32[3]"),
              HasSubstr("rank1.npy holds int8[3]")));
  }
}

TEST(RunPlanTest, AnAllGatherMayDifferInTheFirstDimensionAlone) {
  const RunSettings settings = {.spec = {.type = CollectiveType::kAllGather}};
  const auto plan = PlanRun(settings, Files({Floats({3, 2}), Floats({0, 2})}));
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->ranks[0].request.op, CollectiveOp(AllGather{.uneven = true}));
  EXPECT_EQ(plan->ranks[1].request.shape.ToString(), "[0,2]");
  ErrorOf(settings, Files({Floats({3, 2}), Floats({3, 3})}), 1);
  ErrorOf(settings, Files({Floats({3, 2}), Floats({3})}), 1);
  ErrorOf(settings, Files({Floats({}), Floats({1})}), 1);
}

TEST(RunPlanTest, AnEvenAllGatherIsNotCalledUneven) {
  const auto plan =
      PlanRun({.spec = {.type = CollectiveType::kAllGather}}, Alike(2));
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->ranks[0].request.op, CollectiveOp(AllGather{}));
}

TEST(RunPlanTest, GroupsMustDivideTheRanks) {
  EXPECT_THAT(
      ErrorOf({.spec = {.type = CollectiveType::kAllReduce}, .groups = 2},
              Alike(3), 2),
      HasSubstr("--groups 2 does not divide"));
}

TEST(RunPlanTest, RankListsMustFitTheGroups) {
  const RunSettings settings = {.spec = {.type = CollectiveType::kAllReduce},
                                .groups = 2,
                                .rank_list = {0, 2}};
  EXPECT_EQ(ErrorOf(settings, Alike(4), 2),
            "--rank-list: [0,2] does not list ranks of a group of 2: 2 is no "
            "rank");
  EXPECT_THAT(PlanRun(settings, Alike(6)), IsOk());
}

TEST(RunPlanTest, DevicesMustFitTheFiles) {
  EXPECT_THAT(
      ErrorOf({.spec = {.type = CollectiveType::kAllReduce}, .devices = 4},
              Alike(1), 2),
      HasSubstr("--devices 4 does not fit 1 input file;"));
  EXPECT_THAT(
      ErrorOf({.spec = {.type = CollectiveType::kScatter}, .devices = 4},
              Alike(2), 2),
      HasSubstr("root's file alone"));
}

TEST(RunPlanTest, TheRanksOfAClusterMustFitTheFiles) {
  const auto error = [](int tasks, int devices, int files) {
    return ErrorOf({.spec = {.type = CollectiveType::kAllReduce},
                    .devices = tasks * devices,
                    .tasks_of_cluster = tasks},
                   Alike(files), 2);
  };
  EXPECT_THAT(error(3, 1, 4),
              StartsWith("3 tasks with 1 device each are 3 ranks, but there "
                         "are 4 input files; wanted one file per rank"));
  EXPECT_THAT(error(1, 2, 1), StartsWith("1 task with 2 devices has 2 ranks, "
                                         "but there is 1 input file;"));
}

TEST(RunPlanTest, ThereMustBeFiles) {
  EXPECT_THAT(ErrorOf({.spec = {.type = CollectiveType::kGather}}, {}, 2),
              HasSubstr("gather needs --input"));
}

TEST(RunPlanTest, WhatTheLibraryRefusesIsRefusedBeforeAnythingRuns) {
  EXPECT_THAT(ErrorOf({.spec = {.type = CollectiveType::kReduceScatter}},
                      Files({Floats({3}), Floats({3})}), 1),
              "rank0.npy holds float32[3]; reduce_scatter: the first dimension "
              "of [3] is not divisible by the group size 2");
  EXPECT_THAT(ErrorOf({.spec = {.type = CollectiveType::kAllReduce,
                                .merge_op = ReductionKind::kBand}},
                      Alike(2), 1),
              HasSubstr("band"));
  ErrorOf({.spec = {.type = CollectiveType::kReduce, .root = 2}}, Alike(2), 2);
}

}  // namespace run_plan_test
}  // namespace tutti
