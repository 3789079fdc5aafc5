#include "implementations/parts/double_tree.h"

namespace tutti {
namespace {

// A balanced tree of inner positions, which are every second position. The
// middle of a run of inner positions is the parent of the middles of both
// halves. A leaf lies in the gap before inner number `gap`, and hangs where the
// search for that gap ends.
class Tree {
 public:
  Tree(int tree, int size) : tree_(tree), size_(size) {}

  int num_inner() const { return (size_ + tree_) / 2; }
  bool IsInner(int position) const { return position % 2 != tree_; }
  int Gap(int leaf) const { return (leaf + tree_) / 2; }
  static int Number(int inner) { return inner / 2; }

  // Returns the root of inner positions [first, end). If there are none,
  // returns the leaf between; negative if there is no leaf either.
  int Top(int first, int end) const {
    if (first < end) return 2 * Middle(first, end) + 1 - tree_;
    const int leaf = 2 * first - tree_;
    return leaf < size_ ? leaf : -1;
  }

  static int Middle(int first, int end) { return first + (end - first) / 2; }

 private:
  const int tree_;
  const int size_;
};

}  // namespace

TreePlace PlaceInTree(int tree, int position, int size) {
  const Tree all(tree, size);
  const bool is_inner = all.IsInner(position);
  TreePlace place;
  int first = 0;
  int end = all.num_inner();
  while (first < end) {
    const int middle = Tree::Middle(first, end);
    if (is_inner && Tree::Number(position) == middle) {
      place.left = all.Top(first, middle);
      place.right = all.Top(middle + 1, end);
      break;
    }
    place.parent = all.Top(first, end);
    if ((is_inner ? Tree::Number(position) : all.Gap(position)) <= middle) {
      end = middle;
    } else {
      first = middle + 1;
    }
  }
  return place;
}

int RootOfTree(int tree, int size) {
  const Tree all(tree, size);
  return all.Top(0, all.num_inner());
}

}  // namespace tutti
