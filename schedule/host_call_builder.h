#ifndef TUTTI_SCHEDULE_HOST_CALL_BUILDER_H_
#define TUTTI_SCHEDULE_HOST_CALL_BUILDER_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "framework/status_callback.h"
#include "schedule/graph_builder.h"

namespace tutti {

// What a node calls, each time the graph runs. `operands` are the bytes of its
// regions, in order. The span ends with the call; the bytes are there, and
// nobody writes them, until `done`, which runs exactly once, on any thread or
// inside the call. Must not block. With an error the graph has failed.
using HostCall =
    std::function<void(absl::Span<const absl::Span<const std::byte>> operands,
                       StatusCallback done)>;

struct HostCallNode {
  std::vector<Region> reads;  // Each of a size of its own, at least one byte.
  HostCall call;
};

// What a host runtime's graph may offer beside GraphBuilder, or without it:
// nodes that call something.
class HostCallBuilder {
 public:
  using NodeId = GraphBuilder::NodeId;

  virtual ~HostCallBuilder() = default;

  // A node that calls when all of `after` are complete, and is complete when
  // `done` has run. Ids and `after` are as with GraphBuilder.
  virtual NodeId AddHostCall(HostCallNode node,
                             absl::Span<const NodeId> after) = 0;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_HOST_CALL_BUILDER_H_
