// Collectives of NCCL, and hybrids that go on from NCCL to a schedule: among
// the GPUs of one task, and between two tasks, whose bytes pass through pinned
// memory. Schedules between two tasks on GPU 0 do so without NCCL. All run the
// cases of tests/conformance/ and compare bit by bit: inputs of floats are such
// that no result is rounded.

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/gpu/gpu_check.h"
#include "bench/gpu/gpu_group.h"
#include "bench/gpu/group_cases.h"
#include "gpu/nccl/nccl_collective.h"
#include "gpu/nccl/nccl_then.h"
#include "gpu/testing/gpu_cases.h"
#include "gtest/gtest.h"
#include "tests/conformance/case.h"
#include "tutti/collective.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

using conformance::Case;
using conformance::Grid;
using ::testing::Values;

constexpr const char* kHybrids[] = {"NcclThenRing", "NcclThenShuffle",
                                    "NcclThenRecursiveHalvingDoubling"};

// NCCL refuses other reductions, and functions of the caller.
bool HasNccl(const Case& c) {
  return !Reduces(c.type) ||
         WhyNotWithNccl(c.dtype, c.merge_op, c.final_op).empty();
}

// Two whole chunks and some of a third: one is between the tasks, the next is
// being reduced, and the one before is being spread.
std::vector<Case> ChunkedCases(const Grid& grid) {
  constexpr int64_t kRest = 1001;
  std::vector<Case> cases;
  for (const DType dtype : {DType::kFloat32, DType::kInt64}) {
    const auto chunk =
        kNcclThenChunkBytes / static_cast<int64_t>(SizeOf(dtype));
    cases.push_back({.type = CollectiveType::kAllReduce,
                     .grid = grid,
                     .dtype = dtype,
                     .length = 2 * chunk + kRest,
                     .in_place = InPlace::kEvenRanks});
  }
  cases.back().merge_op = ReductionKind::kMax;
  cases.back().final_op = FinalOp::DivideByGroupSize();
  return cases;
}

class NcclCheck : public GpuCheck {
 protected:
  void Run(const GroupShape& shape, const std::string& name) {
    GpuGroup group(machine(), shape);
    const Grid grid = GridOf(group);
    const auto under_test = FindUnderTest(name);
    std::vector<Case> cases = CasesOf(under_test, grid, scale());
    std::erase_if(cases, [](const Case& c) { return !HasNccl(c); });
    AddLargeCases(under_test, grid, scale(), &cases);
    if (shape.num_tasks > 1) {
      const auto chunked = ChunkedCases(grid);
      cases.insert(cases.end(), chunked.begin(), chunked.end());
    }
    RunCases(group, under_test, cases);
  }
};

class NcclChecks
    : public NcclCheck,
      public ::testing::WithParamInterface<std::tuple<bool, const char*>> {};

TEST_P(NcclChecks, MembersGetWhatTheCollectivePromises) {
  const auto& [has_all_gpus, name] = GetParam();
  if (!WhyNoNccl().empty()) GTEST_SKIP() << WhyNoNccl();
  const int num_gpus = has_all_gpus ? machine().num_gpus() : 1;
  if (has_all_gpus && num_gpus == 1) GTEST_SKIP() << "there is one GPU";
  Run({.gpus_per_task = num_gpus, .nccl = *machine().nccl}, name);
}

INSTANTIATE_TEST_SUITE_P(
    Gpus, NcclChecks,
    ::testing::Combine(::testing::Bool(),
                       Values("NcclReduce", "NcclBroadcast", "NcclGather",
                              "NcclReduceScatter", "NcclAllToAll",
                              "NcclPermute", kHybrids[0], kHybrids[1],
                              kHybrids[2])),
    [](const auto& info) {
      return absl::StrCat(std::get<0>(info.param) ? "All_" : "One_",
                          std::get<1>(info.param));
    });

class NcclTaskChecks : public NcclCheck,
                       public ::testing::WithParamInterface<const char*> {};

TEST_P(NcclTaskChecks, TwoTasksOfTwoGpusGetWhatTheCollectivePromises) {
  constexpr int kGpus = 4;
  if (!WhyNoNccl().empty()) GTEST_SKIP() << WhyNoNccl();
  if (machine().num_gpus() < kGpus) {
    GTEST_SKIP() << "there are " << machine().num_gpus() << " GPUs of "
                 << kGpus;
  }
  Run({.num_tasks = 2, .gpus_per_task = 2, .nccl = *machine().nccl},
      GetParam());
}

INSTANTIATE_TEST_SUITE_P(Hybrids, NcclTaskChecks, ::testing::ValuesIn(kHybrids),
                         [](const auto& info) { return info.param; });

class TaskChecks
    : public NcclCheck,
      public ::testing::WithParamInterface<std::tuple<int, const char*>> {};

TEST_P(TaskChecks, TwoTasksOnOneGpuGetWhatTheSchedulePromises) {
  const auto& [num_devices, name] = GetParam();
  GpuGroup group(
      machine(),
      {.num_tasks = 2, .devices_per_gpu = num_devices, .shares_gpus = true});
  const auto schedule = ScheduleNamed(name);
  RunCases(group, schedule, CasesOf(schedule, GridOf(group), scale()));
}

INSTANTIATE_TEST_SUITE_P(Schedules, TaskChecks,
                         ::testing::Combine(Values(1, 2),
                                            Values("RingReduce",
                                                   "HierarchicalRingReduce",
                                                   "TreeReduce")),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param),
                                               "Devices_",
                                               std::get<1>(info.param));
                         });

// With one device each, a hybrid needs no NCCL.
using HybridCheck = NcclCheck;

TEST_F(HybridCheck, TwoTasksOnOneGpuNeedNoNccl) {
  Run({.num_tasks = 2, .shares_gpus = true}, "NcclThenRing");
}

}  // namespace
}  // namespace tutti
