#ifndef TUTTI_TESTS_CONFORMANCE_SUITE_PARAMS_H_
#define TUTTI_TESTS_CONFORMANCE_SUITE_PARAMS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "tests/conformance/case.h"

// What the tests of the suite are parametrised by.

namespace tutti::conformance {

// A collective that the implementation under test claims to do, and a group.
struct TypeOnGrid {
  CollectiveType type;
  Grid grid;
  int64_t length = 0;  // Where the test is about lengths.

  friend void PrintTo(const TypeOnGrid& param, std::ostream* out) {
    *out << Name(param.type) << " on " << ToString(param.grid);
  }
};

bool Any(CollectiveType type);

// Those that are `wanted`, on all grids with at least `min_ranks` ranks.
std::vector<TypeOnGrid> TypesOnGrids(int min_ranks,
                                     bool (*wanted)(CollectiveType) = Any);

// All, with each length.
std::vector<TypeOnGrid> TypesOnGridsWithLengths();

// Names of tests: "all_reduce_2x4_1001" and "all_reduce_2x4".
std::string NameWithLength(const testing::TestParamInfo<TypeOnGrid>& info);
std::string NameWithoutLength(const testing::TestParamInfo<TypeOnGrid>& info);

}  // namespace tutti::conformance

#endif  // TUTTI_TESTS_CONFORMANCE_SUITE_PARAMS_H_
