#ifndef TUTTI_IMPLEMENTATIONS_PARTS_DOUBLE_TREE_LINKS_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_DOUBLE_TREE_LINKS_H_

#include "tutti/params.h"

namespace tutti {

// Links of a double tree (double_tree.h) over all ranks, task after task, that
// lead out of a task. Counted at the task with the most.
struct TreeLinks {
  int down = 0;  // To children.
  int both = 0;  // To children and to parents.

  int in_all = 0;  // Over all tasks, each link once.
};
TreeLinks LinksOutOfTasks(const GroupLayout& layout);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_DOUBLE_TREE_LINKS_H_
