#ifndef TUTTI_SCHEDULE_COMPILED_SCHEDULE_H_
#define TUTTI_SCHEDULE_COMPILED_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schedule/group_memory.h"
#include "tutti/schedule.h"

namespace tutti {

// A schedule in the form that the engine runs. Steps are in one array and list
// their dependents, so that a completion costs O(1).
//
// A receive into scratch is fused with the reduction after it in its lane, if
// no other step reads any of that scratch. The reduction then reads the peer's
// bytes in place. Immutable.
class CompiledSchedule {
 public:
  enum class Incoming : uint8_t { kNone, kLeft, kRight };

  struct Op {
    StepKind kind = StepKind::kCopy;
    bool finish = false;
    // kRecv: the operand of the fused reduction that comes from the peer.
    // kNone: a plain receive.
    Incoming incoming = Incoming::kNone;
    uint8_t num_waits = 0;  // Completions to wait for: 0 to 2.
    Slot into;
    Slot left;
    Slot right;
    int32_t first_more = 0;  // Index in more_.
    int32_t num_more = 0;
    int32_t peer = -1;
    int32_t tag = 0;
    int32_t first_dependent = 0;  // Index in dependents_.
    int32_t num_dependents = 0;
  };

  // Without `fuse`, no receive is fused. Reads `memory.in_place` only at
  // `rank`.
  //
  // Errors: INVALID_ARGUMENT if the collective cannot have this number of
  // chunks. INVALID_ARGUMENT, naming the step, if the rank cannot run
  // `schedule`: a peer, a chunk or a step does not exist; a step writes to the
  // input; slots of one step may differ in size; steps wait for each other.
  static absl::StatusOr<CompiledSchedule> Compile(const Schedule& schedule,
                                                  const GroupMemory& memory,
                                                  int rank, bool fuse = true);

  int num_chunks() const { return num_chunks_; }
  const std::vector<Op>& ops() const { return ops_; }

  // Ops that wait for nothing.
  const std::vector<int32_t>& roots() const { return roots_; }

  // Ops that wait for `op`.
  absl::Span<const int32_t> dependents(const Op& op) const {
    return absl::MakeConstSpan(dependents_)
        .subspan(op.first_dependent, op.num_dependents);
  }

  // Operands of the reduction `op` after `right`.
  absl::Span<const Slot> more(const Op& op) const {
    return absl::MakeConstSpan(more_).subspan(op.first_more, op.num_more);
  }

  // Scratch that needs memory: disjoint ranges, sorted by bank, then chunk.
  // Each slot of an op is within one of them.
  const std::vector<Slot>& scratch() const { return scratch_; }

 private:
  friend class ScheduleCompiler;
  CompiledSchedule() = default;

  int num_chunks_ = 0;
  std::vector<Op> ops_;
  std::vector<int32_t> roots_;
  std::vector<int32_t> dependents_;
  std::vector<Slot> more_;
  std::vector<Slot> scratch_;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_COMPILED_SCHEDULE_H_
