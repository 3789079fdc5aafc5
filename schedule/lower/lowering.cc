#include "schedule/lower/lowering.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "tutti/tensor.h"

namespace tutti {

using Incoming = CompiledSchedule::Incoming;

namespace {

// Returns the elements of both, each once.
std::vector<GraphBuilder::NodeId> Union(
    std::vector<GraphBuilder::NodeId> nodes,
    const std::vector<GraphBuilder::NodeId>& more) {
  nodes.insert(nodes.end(), more.begin(), more.end());
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

}  // namespace

Lowering::Lowering(Plan plan, CollGroupParams group,
                   CollInstanceParams instance)
    : plan_(plan),
      group_(std::make_shared<const CollGroupParams>(std::move(group))),
      instance_(
          std::make_shared<const CollInstanceParams>(std::move(instance))) {}

absl::Status Lowering::AddMember(int rank, bool in_place, bool fuse) {
  const Schedule schedule =
      plan_({.layout = *group_->layout,
             .type = instance_->type,
             .rank = rank,
             .root = instance_->root,
             .permutation = instance_->permutation,
             .subdiv_offsets = instance_->impl_details.subdiv_offsets,
             .rank_list = instance_->impl_details.rank_list,
             .in_place = in_place});
  GroupMemory memory{.type = instance_->type,
                     .num_ranks = group_->size(),
                     .root = instance_->root,
                     .num_chunks = schedule.num_chunks,
                     .in_place = std::vector<bool>(group_->size())};
  memory.in_place[rank] = in_place;
  ASSIGN_OR_RETURN(auto compiled,
                   CompiledSchedule::Compile(schedule, memory, rank, fuse));
  CollectiveParams params;
  params.group = group_;
  params.instance = instance_;
  params.default_rank = rank;
  auto bound = std::make_unique<const BoundSchedule>(
      std::make_shared<const CompiledSchedule>(std::move(compiled)), params);
  const int first_op = num_ops();
  member_of_.resize(first_op + bound->schedule().ops().size(),
                    static_cast<int>(members_.size()));
  partner_.resize(member_of_.size(), -1);
  after_.resize(member_of_.size());
  members_.push_back({rank, std::move(memory), std::move(bound), first_op});
  return absl::OkStatus();
}

absl::Status Lowering::JoinTransfers() {
  absl::flat_hash_map<std::tuple<int, int, int>, int> sends;  // From, to, tag.
  for (int op = 0; op < num_ops(); ++op) {
    const Op& send = OpAt(op);
    if (send.kind != StepKind::kSend) continue;
    const std::tuple key{MemberOf(op).rank, send.peer, send.tag};
    if (!sends.try_emplace(key, op).second) {
      return Wrong(op, "is there twice");
    }
  }
  for (int op = 0; op < num_ops(); ++op) {
    const Op& recv = OpAt(op);
    if (recv.kind != StepKind::kRecv) continue;
    const auto send = sends.find({recv.peer, MemberOf(op).rank, recv.tag});
    if (send == sends.end() || partner_[send->second] != -1 ||
        BytesOf(send->second) != BytesOf(op)) {
      return Wrong(op, "has no send of its own and size");
    }
    partner_[op] = send->second;
    partner_[send->second] = op;
  }
  for (const auto& [key, send] : sends) {
    if (partner_[send] == -1) return Wrong(send, "has no receive");
  }
  return absl::OkStatus();
}

absl::Status Lowering::AddTo(GraphBuilder& builder,
                             MemberGraphBuilder* transfers) {
  RETURN_IF_ERROR(Order());
  for (const Member& member : members_) {
    const size_t num_bytes = member.bound->scratch_bytes();
    if (num_bytes == 0) continue;
    builder.AddScratch(member.rank, static_cast<int64_t>(num_bytes));
  }
  for (const int op : order_) {
    const int partner = partner_[op];
    NodeIds after = TakeAfter(op);
    if (partner != -1) after = Union(std::move(after), TakeAfter(partner));
    const bool has_node = BytesOf(op) != 0 && !CopiesToItself(op);
    if (has_node) after = {AddNode(op, after, builder, transfers)};
    Complete(op, after);
    if (partner != -1) Complete(partner, after);
  }
  return absl::OkStatus();
}

// Orders the ops. Both halves of a joined transfer start when both may start.
absl::Status Lowering::Order() {
  std::vector<int> waits;
  std::vector<bool> may_start(num_ops());
  const auto start = [&](int op) {
    may_start[op] = true;
    const int partner = partner_[op];
    if (partner != -1 && !may_start[partner]) return;
    order_.push_back(OpAt(op).kind == StepKind::kSend && partner != -1 ? partner
                                                                       : op);
  };
  const auto complete = [&](int op) {
    for (const int next : DependentsOf(op)) {
      if (--waits[next] == 0) start(next);
    }
  };
  for (int op = 0; op < num_ops(); ++op) waits.push_back(OpAt(op).num_waits);
  for (int op = 0; op < num_ops(); ++op) {
    if (waits[op] == 0) start(op);
  }
  for (size_t i = 0; i < order_.size(); ++i) {
    const int op = order_[i];
    complete(op);
    if (partner_[op] != -1) complete(partner_[op]);
  }
  for (int op = 0; op < num_ops(); ++op) {
    const bool is_stuck =
        !may_start[op] || (partner_[op] != -1 && !may_start[partner_[op]]);
    if (is_stuck) return Wrong(op, "never starts");
  }
  return absl::OkStatus();
}

std::vector<int> Lowering::DependentsOf(int op) const {
  const Member& member = MemberOf(op);
  std::vector<int> dependents;
  for (const int32_t next : member.bound->schedule().dependents(OpAt(op))) {
    dependents.push_back(member.first_op + next);
  }
  return dependents;
}

// Removes and returns the nodes that must complete before `op` starts.
Lowering::NodeIds Lowering::TakeAfter(int op) {
  return Union(std::exchange(after_[op], {}), {});
}

// Makes the dependents of `op` wait for `nodes`.
void Lowering::Complete(int op, const NodeIds& nodes) {
  for (const int next : DependentsOf(op)) {
    after_[next].insert(after_[next].end(), nodes.begin(), nodes.end());
  }
}

Lowering::NodeId Lowering::AddNode(int op, const NodeIds& after,
                                   GraphBuilder& builder,
                                   MemberGraphBuilder* transfers) const {
  const Op& what = OpAt(op);
  if (partner_[op] != -1) return AddJoined(op, after, builder);
  switch (what.kind) {
    case StepKind::kSend:
      return transfers->AddSend({RegionOf(op, what.left), what.peer, what.tag},
                                after);
    case StepKind::kRecv:
      return transfers->AddRecv({RegionOf(op, what.into), what.peer, what.tag},
                                after);
    case StepKind::kReduce:
      return builder.AddReduce(
          {OperandsOf(op), RegionOf(op, what.into), what.finish}, after);
    case StepKind::kCopy:
    case StepKind::kWait:  // kWait has no node.
      break;
  }
  return builder.AddCopy(
      {RegionOf(op, what.left), RegionOf(op, what.into), what.finish}, after);
}

Lowering::NodeId Lowering::AddJoined(int recv, const NodeIds& after,
                                     GraphBuilder& builder) const {
  const Op& what = OpAt(recv);
  const Region from = RegionOf(partner_[recv], OpAt(partner_[recv]).left);
  const Region into = RegionOf(recv, what.into);
  switch (what.incoming) {
    case Incoming::kLeft:
      return builder.AddReduce(
          {{from, RegionOf(recv, what.right)}, into, what.finish}, after);
    case Incoming::kRight:
      return builder.AddReduce(
          {{RegionOf(recv, what.left), from}, into, what.finish}, after);
    case Incoming::kNone:
      break;
  }
  return builder.AddCopy({from, into, what.finish}, after);
}

Region Lowering::RegionOf(int op, const Slot& slot) const {
  const BoundSchedule& bound = *MemberOf(op).bound;
  const auto element_bytes = static_cast<int64_t>(SizeOf(bound.dtype()));
  const Range range = bound.chunks().RangeOf(slot);
  const int64_t offset = slot.space == Space::kScratch
                             ? static_cast<int64_t>(bound.ScratchOffset(slot))
                             : range.begin * element_bytes;
  return {MemberOf(op).rank, slot.space, offset, range.size * element_bytes};
}

std::vector<Region> Lowering::OperandsOf(int op) const {
  const Op& what = OpAt(op);
  std::vector<Region> operands = {RegionOf(op, what.left),
                                  RegionOf(op, what.right)};
  for (const Slot& slot : MemberOf(op).bound->schedule().more(what)) {
    operands.push_back(RegionOf(op, slot));
  }
  return operands;
}

int64_t Lowering::BytesOf(int op) const {
  const Op& what = OpAt(op);
  if (what.kind == StepKind::kWait) return 0;
  return RegionOf(op, Writes(what.kind) ? what.into : what.left).num_bytes;
}

bool Lowering::CopiesToItself(int op) const {
  const Op& what = OpAt(op);
  const Member& member = MemberOf(op);
  return what.kind == StepKind::kCopy && !what.finish &&
         member.memory.Canonical(member.rank, what.into) ==
             member.memory.Canonical(member.rank, what.left);
}

absl::Status Lowering::Wrong(int op, const char* what) const {
  const Op& step = OpAt(op);
  const auto more = MemberOf(op).bound->schedule().more(step);
  const Step shown{.kind = step.kind,
                   .into = step.into,
                   .left = step.left,
                   .right = step.right,
                   .more = {more.begin(), more.end()},
                   .peer = step.peer,
                   .tag = step.tag};
  return absl::InvalidArgumentError(
      absl::StrCat("the plan of ", instance_->impl_details.implementation,
                   " is not valid: rank ", MemberOf(op).rank, ", ",
                   ToString(shown), ": ", what));
}

}  // namespace tutti
