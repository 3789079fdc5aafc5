#include "schedule/compiled_schedule.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

bool IsBefore(const Slot& a, const Slot& b) {
  return std::tie(a.bank, a.chunk) < std::tie(b.bank, b.chunk);
}

int End(const Slot& slot) { return slot.chunk + slot.num_chunks; }

}  // namespace

// Builds one CompiledSchedule.
class ScheduleCompiler {
 public:
  ScheduleCompiler(const Schedule& schedule, const GroupMemory& memory,
                   int rank, bool fuse)
      : schedule_(schedule), memory_(memory), rank_(rank), fuse_(fuse) {}

  absl::StatusOr<CompiledSchedule> Compile() {
    if (!schedule_.problem.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", rank_, ": ", schedule_.problem));
    }
    RETURN_IF_ERROR(memory_.CheckNumChunks());
    RETURN_IF_ERROR(CheckSteps());
    CountScratchReads();
    result_.num_chunks_ = schedule_.num_chunks;
    for (const Lane& lane : schedule_.lanes) AddLane(lane);
    ConnectOps();
    RETURN_IF_ERROR(CheckOrder());
    CollectScratch();
    return std::move(result_);
  }

 private:
  using Op = CompiledSchedule::Op;
  using Incoming = CompiledSchedule::Incoming;

  absl::Status CheckSteps() const {
    for (size_t lane = 0; lane < schedule_.lanes.size(); ++lane) {
      for (size_t i = 0; i < schedule_.lanes[lane].size(); ++i) {
        const Step& step = schedule_.lanes[lane][i];
        const absl::string_view problem = ProblemOf(step);
        if (!problem.empty()) return Invalid(lane, i, problem);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Invalid(size_t lane, size_t step,
                       absl::string_view problem) const {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank_, ", step ", lane, ".", step, " (",
                     ToString(schedule_.lanes[lane][step]), "): ", problem));
  }

  absl::string_view ProblemOf(const Step& step) const {
    const bool moves =
        step.kind == StepKind::kSend || step.kind == StepKind::kRecv;
    if (moves && (step.peer < 0 || step.peer >= memory_.num_ranks ||
                  step.peer == rank_)) {
      return "the peer is no other rank of the group";
    }
    if (moves && (step.tag < 0 || step.tag >= kNumTags)) {
      return "the tag is negative, or 2^30 or more";
    }
    if (Writes(step.kind) && step.into.space == Space::kInput) {
      return "writes to the input";
    }
    absl::InlinedVector<Slot, 2> slots = SlotsRead(step);
    if (Writes(step.kind)) slots.insert(slots.begin(), step.into);
    for (const Slot& slot : slots) {
      if (!memory_.Has(rank_, slot)) return "this rank has no such chunk";
      if (!memory_.HaveOneSize(rank_, slot, rank_, slots[0])) {
        return "combines chunks that may differ in size";
      }
      if (Writes(step.kind) && memory_.OverlapInPart(rank_, slot, step.into)) {
        return "writes a part of an operand";
      }
    }
    return IsStep(step.after) ? "" : "waits for a step that does not exist";
  }

  bool IsStep(StepRef ref) const {
    if (!ref.is_set()) return true;
    const auto& lanes = schedule_.lanes;
    return ref.lane < static_cast<int>(lanes.size()) && ref.step >= 0 &&
           ref.step < static_cast<int>(lanes[ref.lane].size());
  }

  void CountScratchReads() {
    for (const Lane& lane : schedule_.lanes) {
      for (const Step& step : lane) {
        for (const Slot& operand : SlotsRead(step)) {
          if (operand.space != Space::kScratch) continue;
          for (int i = 0; i < operand.num_chunks; ++i) {
            ++num_reads_[{operand.chunk + i, operand.bank}];
          }
        }
      }
    }
  }

  // REQUIRES: some step reads the whole slot, which is scratch.
  bool IsReadOnce(const Slot& slot) const {
    for (int i = 0; i < slot.num_chunks; ++i) {
      if (num_reads_.at({slot.chunk + i, slot.bank}) != 1) return false;
    }
    return true;
  }

  // Returns the operand of `next` that `recv` can be fused into.
  Incoming FusedOperand(const Step& recv, const Step& next) const {
    if (recv.kind != StepKind::kRecv || next.kind != StepKind::kReduce ||
        !next.more.empty() || recv.into.space != Space::kScratch ||
        next.after.is_set()) {
      return Incoming::kNone;
    }
    const bool is_left = next.left == recv.into;
    if (!is_left && next.right != recv.into) return Incoming::kNone;
    if (!IsReadOnce(recv.into)) return Incoming::kNone;
    return is_left ? Incoming::kLeft : Incoming::kRight;
  }

  void AddLane(const Lane& lane) {
    auto& op_of_step = op_of_step_.emplace_back();
    for (size_t i = 0; i < lane.size(); ++i) {
      Op op{.kind = lane[i].kind,
            .finish =
                lane[i].finish && Reads(lane[i].kind) && Writes(lane[i].kind),
            .into = lane[i].into,
            .left = lane[i].left,
            .right = lane[i].right,
            .first_more = static_cast<int32_t>(result_.more_.size()),
            .peer = lane[i].peer,
            .tag = lane[i].tag};
      if (op.kind == StepKind::kReduce) {
        op.num_more = static_cast<int32_t>(lane[i].more.size());
        result_.more_.insert(result_.more_.end(), lane[i].more.begin(),
                             lane[i].more.end());
      }
      after_.push_back(lane[i].after);
      op_of_step.push_back(static_cast<int32_t>(result_.ops_.size()));
      if (fuse_ && i + 1 < lane.size()) {
        op.incoming = FusedOperand(lane[i], lane[i + 1]);
      }
      if (op.incoming != Incoming::kNone) {
        const Step& reduce = lane[++i];
        op.finish = reduce.finish;
        op.into = reduce.into;
        op.left = reduce.left;
        op.right = reduce.right;
        op_of_step.push_back(op_of_step.back());
      }
      result_.ops_.push_back(op);
    }
  }

  void ConnectOps() {
    std::vector<std::vector<int32_t>> dependents(result_.ops_.size());
    for (const auto& op_of_step : op_of_step_) {
      for (size_t i = 1; i < op_of_step.size(); ++i) {
        if (op_of_step[i] == op_of_step[i - 1]) continue;  // Fused.
        Connect(op_of_step[i - 1], op_of_step[i], &dependents);
      }
    }
    for (size_t op = 0; op < after_.size(); ++op) {
      if (!after_[op].is_set()) continue;
      Connect(op_of_step_[after_[op].lane][after_[op].step],
              static_cast<int32_t>(op), &dependents);
    }
    for (size_t i = 0; i < result_.ops_.size(); ++i) {
      Op& op = result_.ops_[i];
      if (op.num_waits == 0) result_.roots_.push_back(static_cast<int32_t>(i));
      op.first_dependent = static_cast<int32_t>(result_.dependents_.size());
      op.num_dependents = static_cast<int32_t>(dependents[i].size());
      result_.dependents_.insert(result_.dependents_.end(),
                                 dependents[i].begin(), dependents[i].end());
    }
  }

  void Connect(int32_t before, int32_t after,
               std::vector<std::vector<int32_t>>* dependents) {
    (*dependents)[before].push_back(after);
    ++result_.ops_[after].num_waits;
  }

  // Checks that every op begins once the ops before it are complete.
  absl::Status CheckOrder() const {
    std::vector<int> waits;
    for (const Op& op : result_.ops_) waits.push_back(op.num_waits);
    std::vector<int32_t> begun = result_.roots_;
    for (size_t i = 0; i < begun.size(); ++i) {
      for (int32_t next : result_.dependents(result_.ops_[begun[i]])) {
        if (--waits[next] == 0) begun.push_back(next);
      }
    }
    if (begun.size() == result_.ops_.size()) return absl::OkStatus();
    for (size_t lane = 0; lane < op_of_step_.size(); ++lane) {
      for (size_t i = 0; i < op_of_step_[lane].size(); ++i) {
        if (waits[op_of_step_[lane][i]] > 0) {
          return Invalid(lane, i, "never begins: steps wait for each other");
        }
      }
    }
    return absl::OkStatus();
  }

  void CollectScratch() {
    std::vector<Slot> used;
    const auto collect = [&used](const Slot& slot) {
      if (slot.space == Space::kScratch) used.push_back(slot);
    };
    for (const Op& op : result_.ops_) {
      if (Writes(op.kind)) collect(op.into);
      if (op.kind != StepKind::kRecv || op.incoming == Incoming::kRight) {
        collect(op.left);
      }
      if (op.kind == StepKind::kReduce || op.incoming == Incoming::kLeft) {
        collect(op.right);
      }
      for (const Slot& slot : result_.more(op)) collect(slot);
    }
    std::sort(used.begin(), used.end(), IsBefore);
    std::vector<Slot>& joined = result_.scratch_;
    for (const Slot& slot : used) {
      if (joined.empty() || joined.back().bank != slot.bank ||
          End(joined.back()) <= slot.chunk) {
        joined.push_back(slot);
        continue;
      }
      const int end = std::max(End(joined.back()), End(slot));
      joined.back().num_chunks = end - joined.back().chunk;
    }
  }

  const Schedule& schedule_;
  const GroupMemory& memory_;
  const int rank_;
  const bool fuse_;
  // By chunk and bank of scratch.
  absl::flat_hash_map<std::pair<int, int>, int> num_reads_;
  std::vector<std::vector<int32_t>> op_of_step_;  // By lane and step.
  std::vector<StepRef> after_;                    // By op.
  CompiledSchedule result_;
};

absl::StatusOr<CompiledSchedule> CompiledSchedule::Compile(
    const Schedule& schedule, const GroupMemory& memory, int rank, bool fuse) {
  return ScheduleCompiler(schedule, memory, rank, fuse).Compile();
}

}  // namespace tutti
