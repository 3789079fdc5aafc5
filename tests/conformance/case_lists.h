#ifndef TUTTI_TESTS_CONFORMANCE_CASE_LISTS_H_
#define TUTTI_TESTS_CONFORMANCE_CASE_LISTS_H_

#include <cstdint>
#include <vector>

#include "tests/conformance/case.h"
#include "tests/conformance/tested_implementation.h"
#include "tutti/reduction.h"

// Cases that an implementation has to pass. Lists of smaller tiers are parts of
// those of larger ones: Tier::kQuick has a few values of each dimension.

namespace tutti::conformance {

// {1x1, 1x2, 1x3, 1x8, 2x4, 2x8, 4x4, 3x5}.
std::vector<Grid> Grids(Tier tier);

// {0, 1, 2, 7, 8, 16, 1001, 4095, 4096, 9408, 1045991} elements. Where a
// collective has a block for each rank, up to kMaxBlock they are those of a
// block, and above it of all blocks, rounded up to whole ones. {0} for barrier.
std::vector<int64_t> Lengths(CollectiveType type, Tier tier);
inline constexpr int64_t kMaxBlock = 1001;
inline constexpr int64_t kLargestLength = 1045991;

// Each dtype, placement, subdivision, permutation and root with each other. In
// groups of more than 8 the roots are the first, a middle and the last rank. In
// Tier::kDefault each pair of two choices, the length one of them, is in one
// case at least of all lengths together.
//
// The largest length takes long. It has one permutation, and roots take turns.
// In groups of more than 3 placements and subdivisions take turns, too. Groups
// of more than 8 have one dtype each of 2, 4 and 8 bytes. In Tier::kDefault
// there is one case.
//
// REQUIRES: `length` is one of Lengths(type, tier).
std::vector<Case> MatrixCases(const ImplementationUnderTest& under_test,
                              CollectiveType type, const Grid& grid,
                              int64_t length);

// Each reduction that the dtype supports, the average, and ops of the caller,
// with each placement and subdivision. In Tier::kDefault they are in pairs for
// each dtype, and groups of more than 8 have three dtypes.
std::vector<Case> ReductionCases(const ImplementationUnderTest& under_test,
                                 CollectiveType type, const Grid& grid);

// Blocks of different sizes, some empty, if the traits say so; rows of several
// elements; ranks dealt out to tasks; outputs that the library allocates.
std::vector<Case> SpecialCases(const ImplementationUnderTest& under_test,
                               CollectiveType type, const Grid& grid);

// Members whose inputs are multiplied by factors; none unless the type reduces.
std::vector<Case> FactorCases(const ImplementationUnderTest& under_test,
                              CollectiveType type, const Grid& grid);

// With chunks of twice the size at which automatic subdivision is to begin
// (SubdivisionRequest). Takes long in large groups. One case in Tier::kDefault.
std::vector<Case> SubdividedCases(CollectiveType type, const Grid& grid,
                                  Tier tier);

// Cases of all Lengths() but the largest, one for each.
std::vector<Case> LengthCases(const ImplementationUnderTest& under_test,
                              CollectiveType type, const Grid& grid);

// A few with transfers wherever there are two members, for tests that run each
// many times. Small groups have a large one, in Tier::kDeep also those of 1
// and 2.
std::vector<Case> SampleCases(const ImplementationUnderTest& under_test,
                              CollectiveType type, const Grid& grid);

// An op as a caller could bring it: bytes of any dtype add up to at most 255.
// Commutes.
MergeOp SaturatingAdd();

}  // namespace tutti::conformance

#endif  // TUTTI_TESTS_CONFORMANCE_CASE_LISTS_H_
