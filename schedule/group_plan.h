#ifndef TUTTI_SCHEDULE_GROUP_PLAN_H_
#define TUTTI_SCHEDULE_GROUP_PLAN_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schedule/group_memory.h"
#include "tutti/schedule.h"

namespace tutti {

// Chunks that a step reads and writes: slots of one chunk each, canonical
// (GroupMemory).
struct StepAccesses {
  absl::InlinedVector<Slot, 2> reads;
  absl::InlinedVector<Slot, 1> writes;
};

// The schedules of all ranks of a group side by side, with every send joined to
// its receive. Steps and lanes are numbered consecutively: rank by rank, lane
// by lane, in order. Immutable.
class GroupPlan {
 public:
  struct LaneInfo {
    int rank;
    int index;  // Index in the rank's schedule.
    int first_step;
    int num_steps;
  };

  // Checks everything that is visible without a run. Errors: INVALID_ARGUMENT,
  // naming rank, lane.step and step, in these cases: a chunk, bank, peer or
  // `after` does not exist; a step writes an input; a step combines slots of
  // different sizes; a transfer does not have exactly one partner.
  static absl::StatusOr<GroupPlan> Create(GroupMemory memory,
                                          absl::Span<const Schedule> schedules);

  const GroupMemory& memory() const { return memory_; }
  int num_ranks() const { return memory_.num_ranks; }
  int num_steps() const { return static_cast<int>(steps_.size()); }
  int num_lanes() const { return static_cast<int>(lanes_.size()); }

  const LaneInfo& lane(int lane) const { return lanes_[lane]; }

  // The lanes of a rank are first_lane(rank) .. first_lane(rank + 1) - 1.
  int first_lane(int rank) const { return first_lane_[rank]; }

  const Step& step(int step) const { return steps_[step]; }
  int lane_of(int step) const { return lane_of_step_[step]; }
  int rank_of(int step) const { return lanes_[lane_of_step_[step]].rank; }

  // Returns the other half of a transfer, or -1 if the step is no transfer.
  int partner(int step) const { return partners_[step]; }

  // Returns the `after` step of `step`, or -1 if it has none.
  int after(int step) const;

  // Size classes of the step's chunks (GroupMemory), each once; 0 if it has no
  // chunks.
  absl::InlinedVector<int64_t, 1> size_classes(int step) const;

  // Chunks that the step accesses. A copy of a slot to itself accesses none.
  StepAccesses AccessesOf(int step) const;

  // "rank 2, 0.3 (send data[1] to 3, tag 4)".
  std::string Describe(int step) const;

 private:
  explicit GroupPlan(GroupMemory memory) : memory_(std::move(memory)) {}

  absl::Status Flatten(absl::Span<const Schedule> schedules);
  absl::Status CheckStep(int step) const;
  absl::Status CheckAfter(int step) const;
  absl::Status CheckPeer(int step) const;
  absl::Status CheckSlots(int step) const;
  absl::Status Match();
  absl::Status Join(int first, int second);

  // Returns one of the step's slots. REQUIRES: the step is no kWait.
  const Slot& SlotOf(int step) const {
    const Step& what = steps_[step];
    return Writes(what.kind) ? what.into : what.left;
  }

  absl::Status Error(int step, absl::string_view what) const;

  GroupMemory memory_;
  std::vector<Step> steps_;
  std::vector<LaneInfo> lanes_;
  std::vector<int> lane_of_step_;
  std::vector<int> first_lane_;
  std::vector<int> partners_;
};

// True for sends and receives.
inline bool IsTransfer(const Step& step) {
  return step.kind == StepKind::kSend || step.kind == StepKind::kRecv;
}

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_GROUP_PLAN_H_
