#ifndef TUTTI_GPU_SUITE_GROUP_CASES_H_
#define TUTTI_GPU_SUITE_GROUP_CASES_H_

#include <vector>

#include "absl/status/status.h"
#include "gpu/suite/suite_group.h"
#include "tests/conformance/case.h"
#include "tests/conformance/implementation_under_test.h"

namespace tutti {

// Runs cases of the conformance suite among the group's devices, one after the
// other, and compares all outputs with what is expected, bit by bit. Of three
// cases the tensors of two are not where memory begins. Errors: the first, with
// its case.
absl::Status RunCases(SuiteGroup& group,
                      const conformance::ImplementationUnderTest& under_test,
                      const std::vector<conformance::Case>& cases);

}  // namespace tutti

#endif  // TUTTI_GPU_SUITE_GROUP_CASES_H_
