#include "bench/gpu/nccl_checks.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/gpu/group_cases.h"
#include "bench/gpu/suite_machine.h"
#include "tests/conformance/case_lists.h"
#include "tests/conformance/implementation_under_test.h"
#include "tutti/collective.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

using conformance::Case;
using conformance::Grid;
using conformance::ImplementationUnderTest;

constexpr const char* kNames[] = {
    "NcclReduce",        "NcclBroadcast",   "NcclGather",
    "NcclReduceScatter", "NcclAllToAll",    "NcclPermute",
    "NcclThenRing",      "NcclThenShuffle", "NcclThenRecursiveHalvingDoubling"};

// Other reductions are refused, as are functions of the caller.
bool HasNccl(const Case& c) {
  return !c.merge_op.is_custom() && !c.final_op.is_custom() &&
         c.merge_op.kind() <= ReductionKind::kMax;
}

// Each dtype, root, permutation and placement, each reduction of each dtype,
// lengths, blocks of different sizes, and one of more bytes than the hybrids
// take at a time.
std::vector<Case> NcclCasesOf(const ImplementationUnderTest& under_test,
                              CollectiveType type, const Grid& grid,
                              const CheckScale& scale) {
  constexpr int64_t kOddLength = 7;
  std::vector<Case> all = LengthCases(under_test, type, grid);
  Case large = all.front();
  large.dtype = DType::kFloat64;
  large.length = scale.large_elements;
  if (conformance::HasBlocks(type)) large.length /= grid.size();
  for (const auto& part :
       {MatrixCases(under_test, type, grid, kOddLength),
        SpecialCases(under_test, type, grid),
        Reduces(type) ? ReductionCases(under_test, type, grid)
                      : std::vector<Case>()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  std::vector<Case> cases = {large};
  std::copy_if(all.begin(), all.end(), std::back_inserter(cases),
               [&](const Case& c) {
                 return HasNccl(c) && c.length <= scale.large_elements;
               });
  return cases;
}

}  // namespace

absl::Status CheckNcclCollective(SuiteGroup& group, const std::string& name,
                                 const CheckScale& scale,
                                 const std::vector<Case>& more) {
  const auto under_test = FindUnderTest(name);
  if (!under_test.ok()) return under_test.status();
  std::vector<Case> cases;
  for (const CollectiveType type : under_test->traits().collectives) {
    const auto part = NcclCasesOf(*under_test, type, GridOf(group), scale);
    cases.insert(cases.end(), part.begin(), part.end());
  }
  cases.insert(cases.end(), more.begin(), more.end());
  return RunCases(group, *under_test, cases);
}

std::vector<Check> NcclChecks(const std::shared_ptr<NcclRuntime>& nccl,
                              int num_gpus, const CheckScale& scale) {
  std::vector<Check> checks;
  for (const char* const name : kNames) {
    checks.push_back(
        {.name = absl::StrCat(num_gpus, " GPUs of 1 devices: ", name),
         .run = [nccl, num_gpus, scale, name](SuiteMachine& machine) {
           const auto group = SuiteGroup::Create(machine, num_gpus,
                                                 /*devices_per_gpu=*/1, nccl);
           if (!group.ok()) return group.status();
           return CheckNcclCollective(**group, name, scale);
         }});
  }
  return checks;
}

}  // namespace tutti
