#ifndef TUTTI_SCHEDULE_GRAPH_BUILDER_H_
#define TUTTI_SCHEDULE_GRAPH_BUILDER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "schedule/schedule.h"

namespace tutti {

// Bytes of one member: of its input, of its output (kData) or of its scratch
// memory. In place, input and output are the same memory.
struct Region {
  int rank = 0;
  Space space = Space::kInput;
  int64_t offset_bytes = 0;
  int64_t num_bytes = 0;
};

// The nodes. All regions of one have the same size, whole elements and at least
// one. `into` may be the same bytes as an operand, never overlaps one in part,
// and is never an input unless that is an output too. With `finish` the
// collective's final op is applied to `into` when the rest is done; by a
// reduction as Fold() does, to have the bits of the engine.
struct CopyNode {  // into = from.
  Region from;
  Region into;
  bool finish = false;
};
struct ReduceNode {  // into = operands[0] (+) operands[1] (+) ..., as Fold().
  std::vector<Region> operands;  // At least two.
  Region into;
  bool finish = false;
};

// Between two members that are lowered apart. A send meets the receive of the
// peer that has the same tag; a pair of ranks uses a tag once in each
// direction. The send is complete when its bytes have been read, the receive
// when they are in `into`, which nobody may write before the send has started.
struct SendNode {
  Region from;
  int peer = 0;
  int tag = 0;
};
struct RecvNode {
  Region into;
  int peer = 0;
  int tag = 0;
};

// A host runtime's graph, as Lower...() fills it: each call adds one node,
// which starts when all of `after` are complete. These were added before it,
// each stands once, and the spans end with the call. Ids are the builder's own.
//
// A node that touches a member's input or output also waits for these to be
// there: those edges are the host's.
class GraphBuilder {
 public:
  using NodeId = int64_t;

  virtual ~GraphBuilder() = default;

  // The member needs so much scratch memory, undefined at the start, until all
  // nodes are complete. Called at most once for each rank, before all others.
  virtual void AddScratch(int rank, int64_t num_bytes) = 0;

  virtual NodeId AddCopy(const CopyNode& node,
                         absl::Span<const NodeId> after) = 0;
  virtual NodeId AddReduce(const ReduceNode& node,
                           absl::Span<const NodeId> after) = 0;
};

// One for a member whose peers are elsewhere.
class MemberGraphBuilder : public GraphBuilder {
 public:
  virtual NodeId AddSend(const SendNode& node,
                         absl::Span<const NodeId> after) = 0;
  virtual NodeId AddRecv(const RecvNode& node,
                         absl::Span<const NodeId> after) = 0;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_GRAPH_BUILDER_H_
