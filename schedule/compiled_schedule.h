#ifndef TUTTI_SCHEDULE_COMPILED_SCHEDULE_H_
#define TUTTI_SCHEDULE_COMPILED_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schedule/group_memory.h"
#include "tutti/schedule.h"

namespace tutti {

// A schedule in the form that the engine runs: steps in one array, with who
// waits for whom, so that a completion costs O(1). A receive into scratch that
// the next step of its lane reduces, and nobody else reads, is fused with it:
// the bytes are reduced where the peer has them. Immutable.
class CompiledSchedule {
 public:
  enum class Incoming : uint8_t { kNone, kLeft, kRight };

  struct Op {
    StepKind kind = StepKind::kCopy;
    bool finish = false;
    // kRecv: which operand of the fused reduction comes from the peer; kNone
    // for a plain receive.
    Incoming incoming = Incoming::kNone;
    uint8_t num_waits = 0;  // Completions to wait for: 0 to 2.
    Slot into;
    Slot left;
    Slot right;
    int32_t first_more = 0;  // In more_.
    int32_t num_more = 0;
    int32_t peer = -1;
    int32_t tag = 0;
    int32_t first_dependent = 0;  // In dependents_.
    int32_t num_dependents = 0;
  };

  // Without `fuse` every receive stays one of its own. Of `memory.in_place`
  // only the rank's own entry matters. Errors: INVALID_ARGUMENT if there cannot
  // be so many chunks, and, naming the step, if `schedule` is not one that the
  // rank can run: a peer, a chunk or a step that does not exist, a write to the
  // input, slots that may differ in size in one step, or steps that wait for
  // each other.
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

  // What the reduction `op` reads after `right`.
  absl::Span<const Slot> more(const Op& op) const {
    return absl::MakeConstSpan(more_).subspan(op.first_more, op.num_more);
  }

  // The slots of scratch that need memory, each once.
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
