#include "bench/gpu/task_checks.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/gpu/group_cases.h"
#include "bench/gpu/nccl_checks.h"
#include "bench/gpu/suite_group.h"
#include "bench/gpu/suite_machine.h"
#include "gpu/nccl/nccl_then.h"
#include "gpu/testing/gpu_cases.h"
#include "schedule/proof/verifier.h"
#include "tests/conformance/case.h"
#include "tutti/collective.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

using conformance::Case;

constexpr const char* kSchedules[] = {"RingReduce", "HierarchicalRingReduce",
                                      "TreeReduce"};
constexpr const char* kHybrids[] = {"NcclThenRing", "NcclThenShuffle",
                                    "NcclThenRecursiveHalvingDoubling"};

absl::Status CheckSchedule(SuiteMachine& machine, const TaskShape& shape,
                           const std::string& name, const CheckScale& scale) {
  const auto group = SuiteGroup::CreateTasks(machine, shape);
  if (!group.ok()) return group.status();
  const auto schedule = ScheduleNamed(name);
  return RunCases(**group, schedule, CasesOf(schedule, GridOf(**group), scale));
}

// Two whole chunks and some of a third: one is between the tasks, the next is
// being reduced, and the one before is being spread.
std::vector<Case> ChunkedCases(const conformance::Grid& grid) {
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
  cases.back().final_op = FinalOp::DivideByGroupSize();
  return cases;
}

absl::Status CheckHybrid(SuiteMachine& machine, const TaskShape& shape,
                         const std::shared_ptr<NcclRuntime>& nccl,
                         const std::string& name, const CheckScale& scale) {
  const auto group = SuiteGroup::CreateTasks(machine, shape, nccl);
  if (!group.ok()) return group.status();
  return CheckNcclCollective(**group, name, scale,
                             ChunkedCases(GridOf(**group)));
}

}  // namespace

std::vector<Check> TaskChecks(const CheckScale& scale) {
  std::vector<Check> checks;
  for (const int num_devices : {1, 2}) {
    const TaskShape shape = {.devices_per_gpu = num_devices,
                             .shares_gpus = true};
    for (const char* const name : kSchedules) {
      checks.push_back({.name = absl::StrCat("2 tasks of ", num_devices,
                                             " devices on GPU 0: ", name),
                        .run = [shape, scale, name](SuiteMachine& machine) {
                          return CheckSchedule(machine, shape, name, scale);
                        }});
    }
  }
  checks.push_back({.name = "2 tasks of 1 devices on GPU 0: NcclThenRing",
                    .run = [scale](SuiteMachine& machine) {
                      return CheckHybrid(machine, {.shares_gpus = true},
                                         /*nccl=*/nullptr, "NcclThenRing",
                                         scale);
                    }});
  return checks;
}

std::vector<Check> NcclTaskChecks(const std::shared_ptr<NcclRuntime>& nccl,
                                  const CheckScale& scale) {
  std::vector<Check> checks;
  for (const char* const name : kHybrids) {
    checks.push_back({.name = absl::StrCat("2 tasks of 2 GPUs: ", name),
                      .run = [nccl, scale, name](SuiteMachine& machine) {
                        return CheckHybrid(machine, {.gpus_per_task = 2}, nccl,
                                           name, scale);
                      }});
  }
  return checks;
}

}  // namespace tutti
