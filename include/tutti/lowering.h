#ifndef TUTTI_LOWERING_H_
#define TUTTI_LOWERING_H_

// Lowering: turns a collective into nodes and edges of the embedder's own
// graph, by a GraphBuilder that the embedder implements. The graph yields
// the same bits as the engine. Pure: no threads, devices or executor.

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

// Lowering turns a collective into nodes and edges of a host runtime's own
// graph: the steps of its schedule, for one size and dtype, in place of one
// opaque operation. The result of running the graph is the same bits as what
// the engine computes with the same implementation.
//
// Pure: no threads, devices or executor. `after` orders all that has to be
// ordered: of two nodes that use the same bytes, one of them to write these,
// one waits for the other, directly or by way of others. That holds for reads
// after writes, writes after reads and writes after writes. So nodes may run in
// any order and on any threads that respect `after`. Chunks that are empty have
// no nodes. What members of a barrier send each other is a byte of an input
// that they do not have: any byte will do.
//
// Refers to its collective and layout, which outlive it.
struct LowerRequest {
  // What all members ask for. `impl_details.implementation` names an algorithm
  // that is a schedule; empty: the cheapest one between processes. Keys and
  // `rank` do not count.
  const CollectiveRequest& collective;

  // REQUIRES: collective.group_size ranks.
  const GroupLayout& layout;

  int source = 0;              // Of a broadcast.
  std::vector<bool> in_place;  // By rank; empty: no member works in place.
};

// All members, whose memory the host can reach: a transfer is a copy from
// member to member, or if the receiver adds what it gets, a reduction straight
// from the sender's memory.
//
// Errors, before anything is added: INVALID_ARGUMENT as Validate() and for
// what does not fit the group; NOT_FOUND for an unknown name; UNIMPLEMENTED if
// the implementation is not a schedule, or members may differ in size.
absl::Status LowerGroup(const LowerRequest& request, GraphBuilder& builder);

// What one member does; its transfers are nodes of their own. All members must
// be lowered from equal requests. What they do together is free of races; where
// the order of two of a member's nodes comes from a message that goes through
// its peers, there is no edge here.
//
// Of `in_place` only the member's own entry counts. Errors: as LowerGroup().
absl::Status LowerMember(const LowerRequest& request, int rank,
                         MemberGraphBuilder& builder);

}  // namespace tutti

#endif  // TUTTI_LOWERING_H_
