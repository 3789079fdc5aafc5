#ifndef TUTTI_BENCH_GPU_GROUP_CASES_H_
#define TUTTI_BENCH_GPU_GROUP_CASES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/gpu/check.h"
#include "bench/gpu/suite_group.h"
#include "tests/conformance/case.h"
#include "tests/conformance/implementation_under_test.h"

namespace tutti {

// The registered one, proved with all values of each dimension. Errors:
// NOT_FOUND listing the known names.
absl::StatusOr<conformance::ImplementationUnderTest> FindUnderTest(
    const std::string& name);

// The group's devices, in the order of its ranks.
conformance::Grid GridOf(const SuiteGroup& group);

// Those of the quick suite that GPUs and the host do alike, and each dtype with
// each root, permutation and placement, of an odd length: for each collective
// of the implementation.
std::vector<conformance::Case> CasesOf(
    const conformance::ImplementationUnderTest& under_test,
    const conformance::Grid& grid, const CheckScale& scale);

// When outputs are read.
enum class ReadBack : uint8_t {
  kWhenDone,
  kAtOnce,  // Behind the calls on the compute streams, which then wait.
};

// Runs cases of the conformance suite among the group's devices, one after the
// other, and compares all outputs with what is expected, bit by bit. Of three
// cases the tensors of two are not where memory begins. Errors: the first, with
// its case.
absl::Status RunCases(SuiteGroup& group,
                      const conformance::ImplementationUnderTest& under_test,
                      const std::vector<conformance::Case>& cases,
                      ReadBack read_back = ReadBack::kWhenDone);

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_GROUP_CASES_H_
