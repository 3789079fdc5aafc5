// The conformance suite as a program:
//   PROGRAM --implementation=NAME [--quick] [--unproved] [gtest's flags]

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "schedule/proof/standard_cases.h"
#include "tests/conformance/implementation_under_test.h"

namespace {

using tutti::conformance::ImplementationUnderTest;

// What is wrong on paper is wrong in thousands of runs, or never ends. Looks at
// groups as large as those that run.
bool IsWrongOnPaper(const ImplementationUnderTest& under_test) {
  return under_test.algorithm != nullptr && !under_test.unproved &&
         !VerifyStandardCases(*under_test.algorithm,
                              {.max_ranks = under_test.quick ? 8 : 16})
              .first_failure.ok();
}

}  // namespace

int main(int argc, char** argv) {
  // First, because which tests there are depends on the implementation.
  const absl::Status status = tutti::conformance::ReadArguments(argc, argv);
  if (!status.ok()) {
    std::fprintf(stderr, "conformance: %s\n",
                 std::string(status.message()).c_str());
    return 2;
  }
  testing::InitGoogleMock(&argc, argv);
  if (IsWrongOnPaper(tutti::conformance::UnderTest())) {
    std::fprintf(stderr,
                 "conformance: the schedules are wrong, so they are proved "
                 "only, not run (unless --unproved is given)\n");
    GTEST_FLAG_SET(filter, "*ScheduleTest*:TraitsTest*");
  }
  return RUN_ALL_TESTS();
}
