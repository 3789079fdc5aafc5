#ifndef TUTTI_IMPLEMENTATIONS_PARTS_RELAY_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_RELAY_H_

#include <vector>

#include "tutti/schedule.h"

namespace tutti {

// A rank of a broadcast through which chunks pass one after the other.
struct Relay {
  int parent = -1;  // Negative: the rank is the source.
  std::vector<int> children;
  std::vector<int> chunks;  // In this order.
};

// Receives every chunk into the output and sends it to all children as soon as
// it arrives, while the next chunk arrives. The source sends and copies its
// input. Each link has a lane. Tags: the chunks.
void AddRelay(const Relay& relay, ScheduleBuilder& builder);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_RELAY_H_
