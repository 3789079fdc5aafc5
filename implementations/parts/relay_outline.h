#ifndef TUTTI_IMPLEMENTATIONS_PARTS_RELAY_OUTLINE_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_RELAY_OUTLINE_H_

#include <memory>
#include <vector>

#include "tutti/schedule.h"

namespace tutti {

// A way from the source to all other ranks, and how many chunks follow each
// other on it.
struct RelayTree {
  std::vector<int> parents;  // By rank; negative: the source.
  int num_chunks = 0;
};

// The outline of a broadcast whose ranks are relays (relay.h), one in each
// tree. A round takes time in proportion to what is sent in it. REQUIRES: there
// is a tree; all have the same source.
std::unique_ptr<const Outline> RelayOutline(
    const std::vector<RelayTree>& trees);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_RELAY_OUTLINE_H_
