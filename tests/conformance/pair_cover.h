#ifndef TUTTI_TESTS_CONFORMANCE_PAIR_COVER_H_
#define TUTTI_TESTS_CONFORMANCE_PAIR_COVER_H_

#include <vector>

namespace tutti::conformance {

// A pairwise covering array: rows with one choice for each dimension, in which
// any two choices of two dimensions are together in at least one row, and each
// choice is in one. Dimension `d` has the choices 0 .. sizes[d] - 1. The rows
// are in lexicographic order and the same for the same sizes. Their number is
// near the product of the two largest sizes. Most failures depend on one choice
// or on two (Kuhn, Wallace and Gallo, "Software fault interactions", 2004).
// REQUIRES: `sizes` has an element, and all are positive.
std::vector<std::vector<int>> PairCover(const std::vector<int>& sizes);

// All rows of choices, in lexicographic order.
std::vector<std::vector<int>> AllRows(const std::vector<int>& sizes);

}  // namespace tutti::conformance

#endif  // TUTTI_TESTS_CONFORMANCE_PAIR_COVER_H_
