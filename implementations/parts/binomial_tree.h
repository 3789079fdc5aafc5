#ifndef TUTTI_IMPLEMENTATIONS_PARTS_BINOMIAL_TREE_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_BINOMIAL_TREE_H_

#include <vector>

namespace tutti {

// A tree over positions 0..size-1 with root 0. Position p and all positions
// below it are consecutive: p, p+1, ... up to the next multiple of the largest
// power of two that divides p. The child p + 2^k heads the positions from p +
// 2^k up to p + 2^(k+1). Every position is at most CeilLog2(size) from the
// root.
//
//   0 -+- 1            With 8 positions.
//      +- 2 --- 3
//      '- 4 -+- 5
//            '- 6 --- 7
int BinomialParent(int position);  // REQUIRES: position > 0.

// Returns children in increasing order: the heads of small subtrees come first.
std::vector<int> BinomialChildren(int position, int size);

// Returns the smallest k with 2^k >= value. REQUIRES: value >= 1.
int CeilLog2(int value);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_BINOMIAL_TREE_H_
