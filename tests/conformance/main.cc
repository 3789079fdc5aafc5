// The conformance suite as a program:
//   PROGRAM --implementation=NAME [--quick] [gtest's flags]

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/conformance/implementation_under_test.h"

int main(int argc, char** argv) {
  // First, because which tests there are depends on the implementation.
  const absl::Status status = tutti::conformance::ReadArguments(argc, argv);
  if (!status.ok()) {
    std::fprintf(stderr, "conformance: %s\n",
                 std::string(status.message()).c_str());
    return 2;
  }
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
