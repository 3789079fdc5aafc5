#ifndef TUTTI_IMPLEMENTATIONS_PARTS_DOUBLE_TREE_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_DOUBLE_TREE_H_

namespace tutti {

// Two binary trees over positions 0..size-1 for the two halves of a buffer: a
// position that has children in one of them is a leaf of the other, so that
// all have about the same to do. In both, everything below a position's left
// child comes before it, and everything below its right child after it.
//
//   tree 0         5                tree 1         4
//                 / \                             / \.
//              3       7                       2     6
//            /   \    /                      /  \   / \.
//           1     4  6                      0    3 5   7
//          / \                               \.
//         0   2                               1      With 8 positions.
//
// A position is at most ceil(log2 size) from the root, and is the parent of a
// given child in one tree at most: the trees share no link in one direction.
//
// (P. Sanders, J. Speck, J. L. Traeff, "Two-tree algorithms for full bandwidth
// broadcast, reduction and scan", Parallel Computing 35, 2009. Theirs are one
// tree and its mirror image or rotation; these are balanced on their own, so
// that both keep the order of positions whether there are an even or an odd
// number of them.)
struct TreePlace {
  // Positions; none if negative.
  int parent = -1;
  int left = -1;
  int right = -1;
};

// REQUIRES: tree is 0 or 1; 0 <= position < size.
TreePlace PlaceInTree(int tree, int position, int size);

// The position without a parent. REQUIRES: size > 0.
int RootOfTree(int tree, int size);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_DOUBLE_TREE_H_
