#ifndef TUTTI_IMPLEMENTATIONS_PARTS_RELAY_OUTLINE_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_RELAY_OUTLINE_H_

#include <memory>
#include <vector>

#include "tutti/schedule.h"

namespace tutti {

// A tree of paths from the source to all other ranks, and the number of chunks
// on them.
struct RelayTree {
  std::vector<int> parents;  // By rank; negative: the source.
  int num_chunks = 0;
};

// Outline of a broadcast in which each rank is a relay (relay.h) in each tree.
// Append() takes time in proportion to the transfers of the round. REQUIRES:
// there is a tree; all trees have the same source.
std::unique_ptr<const Outline> RelayOutline(
    const std::vector<RelayTree>& trees);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_RELAY_OUTLINE_H_
