#include "implementations/two_level/local_then_outline.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "implementations/parts/cost.h"
#include "implementations/two_level/hierarchy.h"
#include "implementations/two_level/local_then_between.h"
#include "schedule/first_members.h"
#include "schedule/proof/verifier.h"
#include "schedule/simulate/planned_outline.h"
#include "tutti/params.h"

namespace tutti {
namespace {

// Returns the round of each task's last transfer in the schedule.
std::vector<int> LastRounds(const Outline& between) {
  const Outline::Size& size = between.size();
  std::vector<int> last(static_cast<size_t>(size.num_ranks));
  if (size.is_ring) {
    std::fill(last.begin(), last.end(), size.num_rounds - 1);
    return last;
  }
  OutlineRound all;
  for (int round = 1; round < size.num_rounds; ++round) {
    all.Clear();
    between.Append(round, 0, size.num_ranks, &all);
    for (const OutlineRound::Transfer& transfer : all.transfers) {
      last[transfer.from] = last[transfer.to] = round;
    }
  }
  return last;
}

int PeriodOf(const GroupLayout& layout, const Outline::Size& between) {
  const int devices = layout.size() / layout.num_tasks();
  const bool is_uniform =
      layout == GroupLayout::Uniform(layout.num_tasks(), devices);
  return is_uniform ? between.period * devices : layout.size();
}

// Returns the scratch of a first rank besides the schedule's. With two inputs,
// the second input is reduced as it arrives.
int64_t ScratchChunks(int num_devices, int num_chunks) {
  return num_devices > 2 ? int64_t{num_devices - 1} * num_chunks : 0;
}

// Returns the size of the whole. REQUIRES: all tasks have one rank, or all have
// more.
Outline::Size SizeOf(const GroupLayout& layout, const Outline::Size& between) {
  const int most = LargestTask(layout);
  const int num_stages = most > 1 ? 2 : 0;  // Besides the schedule's rounds.
  return {.num_ranks = layout.size(),
          .num_chunks = between.num_chunks,
          .num_rounds = between.num_rounds + num_stages,
          .scratch_chunks =
              between.scratch_chunks + ScratchChunks(most, between.num_chunks),
          .period = PeriodOf(layout, between),
          .is_ring = most == 1 && between.is_ring};
}

class Rounds final : public Outline {
 public:
  Rounds(const GroupLayout& layout, std::unique_ptr<const Outline> between)
      : Outline(SizeOf(layout, between->size())),
        layout_(layout),
        begin_(LargestTask(layout) > 1 ? 1 : 0),
        last_(LastRounds(*between)),
        between_(std::move(between)) {}

  void Append(int round, int first, int end,
              OutlineRound* into) const override {
    for (int rank = first; rank < end; ++rank) {
      const int task = layout_.task_of(rank);
      const int first_rank = layout_.tasks()[task].front();
      if (rank == first_rank) {
        AppendFirst(round, task, into);
      } else if (round == 1) {
        into->transfers.push_back({rank, first_rank, size().num_chunks});
      }
    }
  }

  // Results of a first rank are its copies at the end. It then sends them to
  // the other ranks.
  int64_t NumResults(int round, int rank) const override {
    const int task = layout_.task_of(rank);
    const bool is_first = rank == layout_.tasks()[task].front();
    const int ended = begin_ + last_[task] + (is_first ? 0 : 1);
    return round == ended ? size().num_chunks : 0;
  }

 private:
  void AppendFirst(int round, int task, OutlineRound* into) const {
    const std::vector<int>& ranks = layout_.tasks()[task];
    const auto num_others = static_cast<int64_t>(ranks.size()) - 1;
    OutlineRound::Work work = AppendBetween(round - begin_, task, into);
    if (round == 1) work.reduced_chunks += num_others * size().num_chunks;
    const int ended = begin_ + last_[task];
    if (round == ended) work.copied_chunks += size().num_chunks;
    for (size_t i = 1; round == ended + 1 && i < ranks.size(); ++i) {
      into->transfers.push_back({ranks[0], ranks[i], size().num_chunks});
    }
    if (work.reduced_chunks + work.copied_chunks == 0) return;
    into->work.push_back(work);
  }

  // Appends the task's transfers in a round of the schedule. Returns the work
  // of its first rank.
  OutlineRound::Work AppendBetween(int round, int task,
                                   OutlineRound* into) const {
    const auto first_of = [this](int t) { return layout_.tasks()[t].front(); };
    OutlineRound::Work work = {.rank = first_of(task)};
    if (layout_.num_tasks() == 1) return work;
    if (round < 0 || round >= between_->size().num_rounds) return work;
    const size_t num_sent = into->transfers.size();
    const size_t num_working = into->work.size();
    between_->Append(round, task, task + 1, into);
    for (size_t i = num_sent; i < into->transfers.size(); ++i) {
      OutlineRound::Transfer& transfer = into->transfers[i];
      transfer.from = first_of(transfer.from);
      transfer.to = first_of(transfer.to);
    }
    if (into->work.size() == num_working) return work;
    work.reduced_chunks = into->work.back().reduced_chunks;
    work.copied_chunks = into->work.back().copied_chunks;
    into->work.pop_back();
    return work;
  }

  const GroupLayout layout_;
  const int begin_;              // Round 0 of the schedule.
  const std::vector<int> last_;  // Last round by task.
  const std::unique_ptr<const Outline> between_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Outline>> LocalThenOutline(
    absl::string_view between, const PlanRequest& request) {
  const GroupLayout& layout = request.layout;
  if (SmallestTask(layout) == 1 && LargestTask(layout) > 1) {
    return absl::UnimplementedError("some tasks have one rank, others more");
  }
  // The sum of a task is in the output.
  const InPlace in_place =
      LargestTask(layout) > 1 ? InPlace::kAll : InPlace::kNone;
  auto outline = OutlineOf(AlgorithmBetween(between),
                           {.layout = FirstsOf(layout.num_tasks()),
                            .subdiv_offsets = {request.subdiv_offsets.begin(),
                                               request.subdiv_offsets.end()},
                            .rank_list = TasksOf(layout, request.rank_list),
                            .in_place = in_place},
                           kMaxPlannedSteps);
  if (!outline.ok()) {
    return absl::Status(
        outline.status().code(),
        absl::StrCat(between, " between tasks: ", outline.status().message()));
  }
  if ((*outline)->size().scratch_chunks > 0 && !IsEven(layout)) {
    return absl::UnimplementedError(absl::StrCat(
        between, " needs scratch memory, and tasks have different sizes"));
  }
  return std::make_unique<Rounds>(layout, *std::move(outline));
}

}  // namespace tutti
