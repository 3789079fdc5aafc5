#ifndef TUTTI_LOWERING_H_
#define TUTTI_LOWERING_H_

// Lowering: turns a collective into nodes and edges of the host runtime's
// graph, by a GraphBuilder that the host implements. The graph yields the same
// bits as the engine. Pure: no threads, devices or executor.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/params.h"
#include "tutti/schedule.h"

namespace tutti {

// Bytes of one member: of its input, its output (kData) or its scratch memory.
// In place, input and output are the same memory.
struct Region {
  int rank = 0;
  Space space = Space::kInput;
  int64_t offset_bytes = 0;
  int64_t num_bytes = 0;
};

// Nodes. All regions of a node have the same size: whole elements, at least
// one. `into` may equal an operand, but never overlaps one in part. It is never
// an input unless that input is also an output. `finish` applies the
// collective's final op to `into` at the end. A reduction with `finish` must
// work like Fold(), to give the same bits as the engine.
struct CopyNode {  // into = from.
  Region from;
  Region into;
  bool finish = false;
};
struct ReduceNode {  // into = operands[0] (+) operands[1] (+) ..., see Fold().
  std::vector<Region> operands;  // At least two.
  Region into;
  bool finish = false;
};

// Transfers between two members that are lowered separately. A send meets the
// peer's receive with the same tag. A pair of ranks uses a tag once in each
// direction. A send is complete when its bytes have been read, a receive when
// they are in `into`. Nobody may write `into` before the send has started.
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

// A host runtime's graph, filled by LowerGroup() or LowerMember(). Each call
// adds one node, which starts when all of `after` are complete. `after` lists
// nodes added before, each once; the span ends with the call. The builder
// chooses the ids.
//
// A node that uses a member's input or output also waits until these exist. The
// host adds these edges.
class GraphBuilder {
 public:
  using NodeId = int64_t;

  virtual ~GraphBuilder() = default;

  // Reserves scratch memory for the member, undefined at the start, until all
  // nodes are complete. Called at most once for each rank, before all other
  // calls.
  virtual void AddScratch(int rank, int64_t num_bytes) = 0;

  virtual NodeId AddCopy(const CopyNode& node,
                         absl::Span<const NodeId> after) = 0;
  virtual NodeId AddReduce(const ReduceNode& node,
                           absl::Span<const NodeId> after) = 0;
};

// Graph of one member whose peers are in other graphs.
class MemberGraphBuilder : public GraphBuilder {
 public:
  virtual NodeId AddSend(const SendNode& node,
                         absl::Span<const NodeId> after) = 0;
  virtual NodeId AddRecv(const RecvNode& node,
                         absl::Span<const NodeId> after) = 0;
};

// Function that a node calls each time the graph runs. `operands` are the bytes
// of the node's regions, in order. The span ends with the call. The bytes
// exist, and nobody writes them, until `done`. `done` runs exactly once, on any
// thread or inside the call. Must not block. After an error the graph has
// failed.
using HostCall =
    std::function<void(absl::Span<const absl::Span<const std::byte>> operands,
                       StatusCallback done)>;

struct HostCallNode {
  std::vector<Region> reads;  // Sizes may differ; each at least one byte.
  HostCall call;
};

// Nodes that call a function: an optional part of a host runtime's graph, with
// or without GraphBuilder.
class HostCallBuilder {
 public:
  using NodeId = GraphBuilder::NodeId;

  virtual ~HostCallBuilder() = default;

  // Adds a node that calls when all of `after` are complete, and is complete
  // when `done` has run. Ids and `after` are as in GraphBuilder.
  virtual NodeId AddHostCall(HostCallNode node,
                             absl::Span<const NodeId> after) = 0;
};

// Request to lower a collective. Lowering replaces one opaque operation by the
// steps of a schedule, for one size and dtype. The steps become nodes and edges
// of a host runtime's graph. The graph yields the same bits as the engine with
// the same implementation.
//
// Pure: no threads, devices or executor. `after` gives all the order that nodes
// need. If two nodes use the same bytes and one of them writes, one waits for
// the other, directly or through other nodes. So nodes may run in any order and
// on any threads that respect `after`. Empty chunks have no nodes. Members of a
// barrier send each other a byte of an input that they do not have: any byte
// will do.
//
// Refers to its collective and layout, which outlive it.
struct LowerRequest {
  // Request of all members. `impl_details.implementation` names an algorithm
  // that is a schedule; empty: the cheapest one between processes. Keys and
  // `rank` are ignored.
  const CollectiveRequest& collective;

  // REQUIRES: collective.group_size ranks.
  const GroupLayout& layout;

  int source = 0;              // Source of a broadcast.
  std::vector<bool> in_place;  // By rank; empty: no member works in place.
};

// Lowers all members into one graph; the host can reach their memory. A
// transfer is a copy from member to member. If the receiver reduces what it
// receives, the transfer is a reduction straight from the sender's memory.
//
// Errors, before anything is added: INVALID_ARGUMENT as in Validate() and for a
// request that does not fit the group; NOT_FOUND for an unknown name;
// UNIMPLEMENTED if the implementation is not a schedule, or if members may
// differ in size.
absl::Status LowerGroup(const LowerRequest& request, GraphBuilder& builder);

// Lowers one member; its transfers become send and receive nodes. Lower all
// members from equal requests. Their graphs together are free of races. Two
// nodes of a member may be ordered only by a message through its peers: this
// graph then has no edge between them.
//
// Uses only this member's entry of `in_place`. Errors: as LowerGroup().
absl::Status LowerMember(const LowerRequest& request, int rank,
                         MemberGraphBuilder& builder);

}  // namespace tutti

#endif  // TUTTI_LOWERING_H_
