// The conformance suite as a program:
//   PROGRAM [--implementation=NAME] [--quick | --deep] [--unproved] [gtest's
//   flags]
// proves one registered implementation, or all that run on CPU devices. Tests
// of RingReduce alone are --gtest_filter='*/RingReduce_*'.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/conformance/tested_implementation.h"

int main(int argc, char** argv) {
  // First, because which tests there are depends on the implementations.
  const absl::Status status = tutti::conformance::ReadArguments(argc, argv);
  if (!status.ok()) {
    std::fprintf(stderr, "conformance: %s\n",
                 std::string(status.message()).c_str());
    return 2;
  }
  tutti::conformance::ProveBeforeRuns();
  for (const auto& under_test : tutti::conformance::UnderTest()) {
    if (under_test.is_run) continue;
    std::fprintf(stderr,
                 "conformance: the schedules of %s are wrong, so they are "
                 "proved only, not run (unless --unproved is given)\n",
                 under_test.name.c_str());
  }
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
