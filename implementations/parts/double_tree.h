#ifndef TUTTI_IMPLEMENTATIONS_PARTS_DOUBLE_TREE_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_DOUBLE_TREE_H_

namespace tutti {

// Two binary trees over positions 0..size-1, for the two halves of a buffer. A
// position with children in one tree is a leaf of the other, so that all
// positions have about the same work. In both trees, all positions below a
// position's left child come before the position, and all below its right child
// after it.
//
//   tree 0         5                tree 1         4
//                 / \                             / \.
//              3       7                       2     6
//            /   \    /                      /  \   / \.
//           1     4  6                      0    3 5   7
//          / \                               \.
//         0   2                               1      With 8 positions.
//
// A position is at most ceil(log2 size) from the root. A link from parent to
// child is in at most one of the trees: the trees share no link in one
// direction.
//
// (P. Sanders, J. Speck, J. L. Traeff, "Two-tree algorithms for full bandwidth
// broadcast, reduction and scan", Parallel Computing 35, 2009. Their second
// tree is a mirror image or rotation of the first. Here each tree is balanced
// separately: both keep the order of positions for even and odd sizes.)
struct TreePlace {
  // Positions; negative if there is none.
  int parent = -1;
  int left = -1;
  int right = -1;
};

// REQUIRES: tree is 0 or 1; 0 <= position < size.
TreePlace PlaceInTree(int tree, int position, int size);

// Returns the position without a parent. REQUIRES: size > 0.
int RootOfTree(int tree, int size);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_DOUBLE_TREE_H_
