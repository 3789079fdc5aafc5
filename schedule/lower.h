#ifndef TUTTI_SCHEDULE_LOWER_H_
#define TUTTI_SCHEDULE_LOWER_H_

#include <vector>

#include "absl/status/status.h"
#include "framework/collective_request.h"
#include "framework/group_layout.h"
#include "schedule/graph_builder.h"

namespace tutti {

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

#endif  // TUTTI_SCHEDULE_LOWER_H_
