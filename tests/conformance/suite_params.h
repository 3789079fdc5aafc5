#ifndef TUTTI_TESTS_CONFORMANCE_SUITE_PARAMS_H_
#define TUTTI_TESTS_CONFORMANCE_SUITE_PARAMS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "tests/conformance/case.h"
#include "tests/conformance/tested_implementation.h"

// Parameters of the suite's tests.

namespace tutti::conformance {

// A collective that an implementation claims to do, and a group.
struct Claim {
  const ImplementationUnderTest* under_test;
  CollectiveType type;
  Grid grid;
  int64_t length = 0;  // Where the test is about lengths.

  friend void PrintTo(const Claim& claim, std::ostream* out) {
    *out << claim.under_test->name << ", " << Name(claim.type) << " on "
         << ToString(claim.grid);
  }
};

bool Any(CollectiveType type);

// Claims of implementations that run, for collectives that are `wanted`, on all
// grids with at least `min_ranks` ranks.
std::vector<Claim> ClaimsOnGrids(int min_ranks,
                                 bool (*wanted)(CollectiveType) = Any);

// All claims of implementations that run, with each length.
std::vector<Claim> ClaimsWithLengths();

// Names of tests: "RingReduce_all_reduce_2x4_1001" and
// "RingReduce_all_reduce_2x4".
std::string NameWithLength(const testing::TestParamInfo<Claim>& info);
std::string NameWithoutLength(const testing::TestParamInfo<Claim>& info);

}  // namespace tutti::conformance

#endif  // TUTTI_TESTS_CONFORMANCE_SUITE_PARAMS_H_
