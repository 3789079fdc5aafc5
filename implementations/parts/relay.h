#ifndef TUTTI_IMPLEMENTATIONS_PARTS_RELAY_H_
#define TUTTI_IMPLEMENTATIONS_PARTS_RELAY_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "tutti/schedule.h"

namespace tutti {

// Neighbours of a rank in a tree through which chunks pass from the source to
// all other ranks, as positions in the order of a pipeline (pipelines.h). The
// source is at position 0.
struct Relay {
  int parent = -1;  // Negative: the source.
  std::vector<int> children;
};

// A broadcast through the same trees in each pipeline. Tree t carries chunk
// t + num_trees * s of each subdivision s, one after the other.
struct RelayTrees {
  int num_trees = 1;
  Relay (*relay_at)(int tree, int position, int size) = nullptr;
};

// Each rank receives every chunk into the output and sends it to all children
// as soon as it arrives, while the next chunk arrives. The source sends and
// copies its input. Each link has a lane. Tags: the chunks.
Schedule PlanRelays(const PlanRequest& request, const RelayTrees& trees);

// Outline of PlanRelays(). Append() takes time in proportion to the transfers
// of the round.
absl::StatusOr<std::unique_ptr<const Outline>> RelayOutline(
    const PlanRequest& request, const RelayTrees& trees);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_PARTS_RELAY_H_
