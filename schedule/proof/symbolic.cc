#include "schedule/proof/symbolic.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

// Memory of one rank, by its canonical name (GroupMemory::Canonical).
struct Cell {
  int rank;
  Slot slot;

  friend bool operator==(const Cell&, const Cell&) = default;

  template <typename H>
  friend H AbslHashValue(H h, const Cell& cell) {
    return H::combine(std::move(h), cell.rank, cell.slot.space, cell.slot.chunk,
                      cell.slot.bank);
  }
};

// Runs each lane until it is done or waits. A lane that waits for `after` is in
// a list at that step. A transfer that waits is found by its partner.
class Runner {
 public:
  explicit Runner(const GroupPlan& plan)
      : plan_(plan),
        done_(plan.num_lanes()),
        posted_(plan.num_steps()),
        completed_(plan.num_steps()),
        first_waiter_(plan.num_steps(), -1),
        next_waiter_(plan.num_lanes(), -1) {}

  // Runs all steps. Errors: as RunSymbolically().
  absl::Status Run();

  // Returns the results, with or without the outputs. REQUIRES: Run() was OK.
  SymbolicRun TakeRun() &&;
  std::vector<int> TakeOrder() && { return std::move(run_.completion_order); }

 private:
  // Returns the next step of a lane; -1 at its end.
  int Current(int lane) const;

  absl::Status Advance(int lane);
  bool MustWait(int lane, int step);
  absl::Status Execute(int step);
  absl::Status Transfer(int step);
  absl::Status Compute(int step);
  void Complete(int step);

  absl::StatusOr<ExpressionId> Read(int step, const Slot& slot);
  void Write(int step, int i, ExpressionId value);
  void CollectOutputs();

  absl::Status Deadlock() const;
  std::vector<std::string> WaitsInACircle() const;
  int FirstStuckLane() const;
  int Blocker(int lane) const;

  const GroupPlan& plan_;
  SymbolicRun run_;
  absl::flat_hash_map<Cell, ExpressionId> values_;
  std::vector<int> done_;          // Number of complete steps, by lane.
  std::vector<bool> posted_;       // Transfers that wait for their partners.
  std::vector<bool> completed_;    // By step.
  std::vector<int> first_waiter_;  // First waiting lane, by step.
  std::vector<int> next_waiter_;   // By lane; a lane waits in one list.
  std::vector<int> ready_;
};

absl::Status Runner::Run() {
  run_.completion_order.reserve(plan_.num_steps());
  for (int lane = plan_.num_lanes() - 1; lane >= 0; --lane) {
    ready_.push_back(lane);
  }
  while (!ready_.empty()) {
    const int lane = ready_.back();
    ready_.pop_back();
    if (absl::Status status = Advance(lane); !status.ok()) return status;
  }
  return FirstStuckLane() == -1 ? absl::OkStatus() : Deadlock();
}

SymbolicRun Runner::TakeRun() && {
  CollectOutputs();
  return std::move(run_);
}

int Runner::Current(int lane) const {
  const GroupPlan::LaneInfo& info = plan_.lane(lane);
  return done_[lane] < info.num_steps ? info.first_step + done_[lane] : -1;
}

absl::Status Runner::Advance(int lane) {
  for (int step = Current(lane); step != -1; step = Current(lane)) {
    if (MustWait(lane, step)) break;
    if (absl::Status status = Execute(step); !status.ok()) return status;
  }
  return absl::OkStatus();
}

bool Runner::MustWait(int lane, int step) {
  const int after = plan_.after(step);
  if (after != -1 && !completed_[after]) {
    next_waiter_[lane] = std::exchange(first_waiter_[after], lane);
    return true;
  }
  if (!IsTransfer(plan_.step(step))) return false;
  posted_[step] = true;
  return !posted_[plan_.partner(step)];
}

absl::Status Runner::Execute(int step) {
  return IsTransfer(plan_.step(step)) ? Transfer(step) : Compute(step);
}

// Runs a whole transfer when its second half is reached.
absl::Status Runner::Transfer(int step) {
  const int partner = plan_.partner(step);
  const bool sends = plan_.step(step).kind == StepKind::kSend;
  const int send = sends ? step : partner;
  const int recv = sends ? partner : step;
  const Slot& from = plan_.step(send).left;
  for (int i = 0; i < from.num_chunks; ++i) {
    ASSIGN_OR_RETURN(const auto value, Read(send, from.At(i)));
    Write(recv, i, value);
  }
  Complete(send);
  Complete(recv);
  ready_.push_back(plan_.lane_of(partner));
  return absl::OkStatus();
}

absl::Status Runner::Compute(int step) {
  const Step& what = plan_.step(step);
  const auto num_writes =
      static_cast<int>(plan_.AccessesOf(step).writes.size());
  for (int i = 0; i < num_writes; ++i) {
    absl::InlinedVector<ExpressionId, 2> operands;
    for (const Slot& slot : SlotsRead(what)) {
      ASSIGN_OR_RETURN(const auto operand, Read(step, slot.At(i)));
      operands.push_back(operand);
    }
    const ExpressionId value = what.kind == StepKind::kReduce
                                   ? run_.expressions.Reduce(operands)
                                   : operands[0];
    Write(step, i, what.finish ? run_.expressions.Finish(value) : value);
  }
  Complete(step);
  return absl::OkStatus();
}

void Runner::Complete(int step) {
  completed_[step] = true;
  ++done_[plan_.lane_of(step)];
  run_.completion_order.push_back(step);
  for (int lane = first_waiter_[step]; lane != -1; lane = next_waiter_[lane]) {
    ready_.push_back(lane);
  }
}

// Creates an input's expression at its first read.
absl::StatusOr<ExpressionId> Runner::Read(int step, const Slot& slot) {
  const int rank = plan_.rank_of(step);
  const Slot canonical = plan_.memory().Canonical(rank, slot);
  const auto [entry, is_new] =
      values_.try_emplace(Cell{rank, canonical}, kUndefined);
  if (is_new && canonical.space == Space::kInput) {
    entry->second = run_.expressions.Input(rank, slot.chunk);
  }
  if (entry->second == kUndefined) {
    return absl::InvalidArgumentError(
        absl::StrCat(plan_.Describe(step), " reads ", ToString(slot),
                     ", to which nothing was written"));
  }
  return entry->second;
}

// Writes chunk `i` of the step's result.
void Runner::Write(int step, int i, ExpressionId value) {
  const int rank = plan_.rank_of(step);
  const Slot slot = plan_.memory().Canonical(rank, plan_.step(step).into.At(i));
  values_[Cell{rank, slot}] = value;
}

void Runner::CollectOutputs() {
  const GroupMemory& memory = plan_.memory();
  run_.outputs.resize(plan_.num_ranks());
  for (int rank = 0; rank < plan_.num_ranks(); ++rank) {
    run_.outputs[rank].assign(memory.num_chunks, kUndefined);
    for (int chunk = 0; chunk < memory.num_chunks; ++chunk) {
      if (!memory.OutputHas(rank, chunk)) continue;
      const Slot slot = memory.Canonical(rank, Data(chunk));
      const auto entry = values_.find(Cell{rank, slot});
      if (entry != values_.end()) {
        run_.outputs[rank][chunk] = entry->second;
      } else if (slot.space == Space::kInput) {
        run_.outputs[rank][chunk] = run_.expressions.Input(rank, chunk);
      }
    }
  }
}

int Runner::FirstStuckLane() const {
  for (int lane = 0; lane < plan_.num_lanes(); ++lane) {
    if (Current(lane) != -1) return lane;
  }
  return -1;
}

int Runner::Blocker(int lane) const {
  const int step = Current(lane);
  return posted_[step] ? plan_.partner(step) : plan_.after(step);
}

absl::Status Runner::Deadlock() const {
  constexpr size_t kMaxShown = 6;
  std::vector<std::string> waits = WaitsInACircle();
  const size_t hidden = waits.size() - std::min(waits.size(), kMaxShown);
  waits.resize(waits.size() - hidden);
  if (hidden > 0) waits.push_back(absl::StrCat("and ", hidden, " more"));
  return absl::InvalidArgumentError(
      absl::StrCat("deadlock: ", absl::StrJoin(waits, "; ")));
}

// Finds the circle of waits. Every stuck lane waits for a step of one other
// stuck lane, so a walk along these waits ends in a circle.
std::vector<std::string> Runner::WaitsInACircle() const {
  std::vector<bool> seen(plan_.num_lanes());
  int lane = FirstStuckLane();
  for (; !seen[lane]; lane = plan_.lane_of(Blocker(lane))) seen[lane] = true;
  std::vector<std::string> waits;
  do {
    waits.push_back(absl::StrCat(plan_.Describe(Current(lane)), " waits for ",
                                 plan_.Describe(Blocker(lane))));
    seen[lane] = false;
    lane = plan_.lane_of(Blocker(lane));
  } while (seen[lane]);
  return waits;
}

}  // namespace

absl::StatusOr<SymbolicRun> RunSymbolically(const GroupPlan& plan) {
  Runner runner(plan);
  if (absl::Status status = runner.Run(); !status.ok()) return status;
  return std::move(runner).TakeRun();
}

absl::StatusOr<std::vector<int>> CompletionOrder(const GroupPlan& plan) {
  Runner runner(plan);
  if (absl::Status status = runner.Run(); !status.ok()) return status;
  return std::move(runner).TakeOrder();
}

}  // namespace tutti
