#include "schedule/group_plan.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

// Key that a send and its receive share.
struct TransferKey {
  int from;
  int to;
  int tag;

  friend bool operator==(const TransferKey&, const TransferKey&) = default;

  template <typename H>
  friend H AbslHashValue(H h, const TransferKey& key) {
    return H::combine(std::move(h), key.from, key.to, key.tag);
  }
};

TransferKey KeyOf(int rank, const Step& step) {
  return step.kind == StepKind::kSend ? TransferKey{rank, step.peer, step.tag}
                                      : TransferKey{step.peer, rank, step.tag};
}

}  // namespace

absl::StatusOr<GroupPlan> GroupPlan::Create(
    GroupMemory memory, absl::Span<const Schedule> schedules) {
  if (schedules.size() != static_cast<size_t>(memory.num_ranks)) {
    return absl::InvalidArgumentError(absl::StrCat(
        schedules.size(), " schedules for ", memory.num_ranks, " ranks"));
  }
  RETURN_IF_ERROR(memory.CheckNumChunks());
  memory.in_place.resize(memory.num_ranks);
  GroupPlan plan(std::move(memory));
  RETURN_IF_ERROR(plan.Flatten(schedules));
  for (int step = 0; step < plan.num_steps(); ++step) {
    RETURN_IF_ERROR(plan.CheckStep(step));
  }
  if (absl::Status status = plan.Match(); !status.ok()) return status;
  return plan;
}

absl::Status GroupPlan::Flatten(absl::Span<const Schedule> schedules) {
  for (const Schedule& schedule : schedules) {
    const int rank = static_cast<int>(first_lane_.size());
    if (!schedule.problem.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", rank, ": ", schedule.problem));
    }
    if (schedule.num_chunks != memory_.num_chunks) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", rank, " cuts into ", schedule.num_chunks,
                       " chunks, rank 0 into ", memory_.num_chunks));
    }
    first_lane_.push_back(num_lanes());
    for (const Lane& lane : schedule.lanes) {
      lane_of_step_.insert(lane_of_step_.end(), lane.size(), num_lanes());
      lanes_.push_back({.rank = rank,
                        .index = num_lanes() - first_lane_.back(),
                        .first_step = num_steps(),
                        .num_steps = static_cast<int>(lane.size())});
      steps_.insert(steps_.end(), lane.begin(), lane.end());
    }
  }
  first_lane_.push_back(num_lanes());
  return absl::OkStatus();
}

absl::Status GroupPlan::CheckStep(int step) const {
  if (absl::Status status = CheckAfter(step); !status.ok()) return status;
  if (absl::Status status = CheckPeer(step); !status.ok()) return status;
  return CheckSlots(step);
}

absl::Status GroupPlan::CheckPeer(int step) const {
  const Step& what = steps_[step];
  if (!IsTransfer(what)) return absl::OkStatus();
  if (what.peer < 0 || what.peer >= num_ranks()) {
    return Error(step, absl::StrCat("has a peer outside 0..", num_ranks() - 1));
  }
  if (what.peer == rank_of(step)) return Error(step, "is its own peer");
  if (what.tag < 0 || what.tag >= kNumTags) {
    return Error(step, absl::StrCat("has a tag outside 0..", kNumTags - 1));
  }
  if (what.finish) return Error(step, "cannot apply the final op");
  return absl::OkStatus();
}

absl::Status GroupPlan::CheckAfter(int step) const {
  const StepRef after = steps_[step].after;
  if (!after.is_set()) return absl::OkStatus();
  const int rank = rank_of(step);
  const int lane = first_lane_[rank] + after.lane;
  if (after.lane >= first_lane_[rank + 1] - first_lane_[rank] ||
      after.step < 0 || after.step >= lanes_[lane].num_steps) {
    return Error(step, "waits for a step that does not exist");
  }
  if (lanes_[lane].first_step + after.step == step) {
    return Error(step, "waits for itself");
  }
  return absl::OkStatus();
}

absl::Status GroupPlan::CheckSlots(int step) const {
  const Step& what = steps_[step];
  const int rank = rank_of(step);
  absl::InlinedVector<Slot, 2> slots = SlotsRead(what);
  if (Writes(what.kind)) slots.insert(slots.begin(), what.into);
  for (const Slot& slot : slots) {
    if (!memory_.Has(rank, slot)) {
      return Error(step, absl::StrCat("uses ", ToString(slot),
                                      ", which the rank does not have"));
    }
    if (!memory_.HaveOneSize(rank, slot, rank, slots[0])) {
      return Error(step,
                   absl::StrCat("combines ", ToString(slots[0]), " and ",
                                ToString(slot), ", which may differ in size"));
    }
    if (Writes(what.kind) && memory_.OverlapInPart(rank, slot, what.into)) {
      return Error(step, absl::StrCat("writes ", ToString(what.into),
                                      ", a part of ", ToString(slot)));
    }
  }
  if (Writes(what.kind) && what.into.space == Space::kInput) {
    return Error(step, "writes the input");
  }
  return absl::OkStatus();
}

absl::Status GroupPlan::Match() {
  partners_.assign(steps_.size(), -1);
  absl::flat_hash_map<TransferKey, int> first_half;
  for (int step = 0; step < num_steps(); ++step) {
    if (!IsTransfer(steps_[step])) continue;
    const auto [entry, is_new] =
        first_half.try_emplace(KeyOf(rank_of(step), steps_[step]), step);
    if (is_new) continue;
    RETURN_IF_ERROR(Join(entry->second, step));
  }
  for (int step = 0; step < num_steps(); ++step) {
    if (!IsTransfer(steps_[step]) || partners_[step] != -1) continue;
    const bool sends = steps_[step].kind == StepKind::kSend;
    return Error(step,
                 absl::StrCat("has no ", sends ? "receive" : "send",
                              " with its tag at rank ", steps_[step].peer));
  }
  return absl::OkStatus();
}

absl::Status GroupPlan::Join(int first, int second) {
  const int taken =
      steps_[first].kind == steps_[second].kind ? first : partners_[first];
  if (taken != -1) {
    return Error(second,
                 absl::StrCat("uses the tag of ", Describe(taken), " again"));
  }
  if (!memory_.HaveOneSize(rank_of(first), SlotOf(first), rank_of(second),
                           SlotOf(second))) {
    return Error(second,
                 absl::StrCat("may differ in size from ", Describe(first)));
  }
  partners_[first] = second;
  partners_[second] = first;
  return absl::OkStatus();
}

int GroupPlan::after(int step) const {
  const StepRef after = steps_[step].after;
  if (!after.is_set()) return -1;
  return lanes_[first_lane_[rank_of(step)] + after.lane].first_step +
         after.step;
}

absl::InlinedVector<int64_t, 1> GroupPlan::size_classes(int step) const {
  if (steps_[step].kind == StepKind::kWait) return {0};
  const Slot& slot = SlotOf(step);
  absl::InlinedVector<int64_t, 1> classes;
  for (int i = 0; i < slot.num_chunks; ++i) {
    classes.push_back(memory_.SizeClass(rank_of(step), slot.At(i)));
  }
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  return classes;
}

StepAccesses GroupPlan::AccessesOf(int step) const {
  const Step& what = steps_[step];
  const int rank = rank_of(step);
  const bool is_nothing =
      what.kind == StepKind::kCopy && !what.finish &&
      memory_.Canonical(rank, what.into) == memory_.Canonical(rank, what.left);
  if (is_nothing) return {};
  const auto add = [&](const Slot& slot, auto* to) {
    for (int i = 0; i < slot.num_chunks; ++i) {
      to->push_back(memory_.Canonical(rank, slot.At(i)));
    }
  };
  StepAccesses accesses;
  if (Writes(what.kind)) add(what.into, &accesses.writes);
  for (const Slot& operand : SlotsRead(what)) add(operand, &accesses.reads);
  return accesses;
}

std::string GroupPlan::Describe(int step) const {
  const LaneInfo& lane = lanes_[lane_of_step_[step]];
  return absl::StrCat("rank ", lane.rank, ", ", lane.index, ".",
                      step - lane.first_step, " (", ToString(steps_[step]),
                      ")");
}

absl::Status GroupPlan::Error(int step, absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(Describe(step), " ", what));
}

}  // namespace tutti
