#ifndef TUTTI_SCHEDULE_LOWER_LOWERING_H_
#define TUTTI_SCHEDULE_LOWER_LOWERING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "schedule/compiled_schedule.h"
#include "schedule/engine/bound_schedule.h"
#include "schedule/group_memory.h"
#include "tutti/lowering.h"
#include "tutti/params.h"
#include "tutti/schedule.h"

namespace tutti {

// Turns the schedules of one member of a group, or of all members, into a graph
// (tutti/lowering.h). Used once, in this order: AddMember(), JoinTransfers() if
// all members are added, AddTo().
class Lowering {
 public:
  using Plan = Schedule (*)(const PlanRequest& request);

  // REQUIRES: everything that the plan depends on has been checked.
  Lowering(Plan plan, CollGroupParams group, CollInstanceParams instance);

  // Adds the member's ops. With `fuse`, a receive and its immediate reduction
  // are one node. Errors: as CompiledSchedule::Compile().
  absl::Status AddMember(int rank, bool in_place, bool fuse);

  // Joins each send and its receive into one node. Errors: INVALID_ARGUMENT if
  // a send or receive has no partner of the same size.
  absl::Status JoinTransfers();

  // Adds the nodes. `transfers` takes the transfers that are not joined; null
  // if all are joined. Errors, before any node is added: INVALID_ARGUMENT
  // naming an op that never starts.
  absl::Status AddTo(GraphBuilder& builder, MemberGraphBuilder* transfers);

 private:
  using Op = CompiledSchedule::Op;
  using NodeId = GraphBuilder::NodeId;
  using NodeIds = std::vector<NodeId>;

  struct Member {
    int rank;
    GroupMemory memory;
    std::unique_ptr<const BoundSchedule> bound;
    int first_op;
  };

  int num_ops() const { return static_cast<int>(member_of_.size()); }
  const Member& MemberOf(int op) const { return members_[member_of_[op]]; }
  const Op& OpAt(int op) const {
    const Member& member = MemberOf(op);
    return member.bound->schedule().ops()[op - member.first_op];
  }
  std::vector<int> DependentsOf(int op) const;
  Region RegionOf(int op, const Slot& slot) const;
  std::vector<Region> OperandsOf(int op) const;  // For a reduction.
  int64_t BytesOf(int op) const;
  bool CopiesToItself(int op) const;
  absl::Status Wrong(int op, const char* what) const;

  absl::Status Order();
  NodeIds TakeAfter(int op);
  void Complete(int op, const NodeIds& nodes);
  NodeId AddNode(int op, const NodeIds& after, GraphBuilder& builder,
                 MemberGraphBuilder* transfers) const;
  NodeId AddJoined(int recv, const NodeIds& after, GraphBuilder& builder) const;

  const Plan plan_;
  const std::shared_ptr<const CollGroupParams> group_;
  const std::shared_ptr<const CollInstanceParams> instance_;
  std::vector<Member> members_;
  std::vector<int> member_of_;  // By op; ops of all members, in order.
  std::vector<int> partner_;    // By op: other half, or -1 if not joined.
  std::vector<int> order_;      // Order of ops; joined: receives only.
  std::vector<NodeIds> after_;  // By op, until its node is added.
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_LOWER_LOWERING_H_
