#include "implementations/parts/double_tree_links.h"

#include <algorithm>
#include <vector>

#include "implementations/parts/double_tree.h"
#include "implementations/parts/subdivision.h"

namespace tutti {

TreeLinks LinksOutOfTasks(const GroupLayout& layout) {
  const std::vector<int> order = RingOrder(layout, /*offset=*/0);
  std::vector<TreeLinks> links(layout.num_tasks());
  int in_all = 0;
  for (int position = 0; position < layout.size(); ++position) {
    const int task = layout.task_of(order[position]);
    for (const int tree : {0, 1}) {
      const int parent = PlaceInTree(tree, position, layout.size()).parent;
      if (parent < 0 || layout.task_of(order[parent]) == task) continue;
      TreeLinks& above = links[layout.task_of(order[parent])];
      ++above.down;
      ++above.both;
      ++links[task].both;
      ++in_all;
    }
  }
  TreeLinks most{.in_all = in_all};
  for (const TreeLinks& one : links) {
    most.down = std::max(most.down, one.down);
    most.both = std::max(most.both, one.both);
  }
  return most;
}

}  // namespace tutti
