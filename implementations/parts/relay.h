#ifndef TUTTI_IMPLEMENTATIONS_PARTS_RELAY_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_RELAY_H_

#include <vector>

#include "tutti/schedule.h"

namespace tutti {

// How chunks that follow each other pass through a rank of a broadcast.
struct Relay {
  int parent = -1;  // None, the rank is the source, if negative.
  std::vector<int> children;
  std::vector<int> chunks;  // In this order.
};

// Receives every chunk into the output and sends it to all children as soon as
// it is there, while the next one comes; the source sends its input, and copies
// it. A lane for each link. Tags: the chunks.
void AddRelay(const Relay& relay, ScheduleBuilder& builder);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_RELAY_H_
