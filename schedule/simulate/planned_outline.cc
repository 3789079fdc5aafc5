#include "schedule/simulate/planned_outline.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "schedule/compiled_schedule.h"
#include "schedule/group_plan.h"
#include "schedule/proof/symbolic.h"
#include "schedule/step_depth.h"

namespace tutti {
namespace {

// An outline from recorded rounds, sorted.
class WrittenOutline : public Outline {
 public:
  // `results`: by rank, the round of each chunk of its output; increasing.
  WrittenOutline(const Size& size, std::vector<OutlineRound> rounds,
                 std::vector<std::vector<int>> results)
      : Outline(size),
        rounds_(std::move(rounds)),
        results_(std::move(results)) {}

  void Append(int round, int first, int end,
              OutlineRound* into) const override {
    const auto copy = [&](const auto& all, auto rank_of, auto* to) {
      const auto begins_before = [&](const auto& one, int rank) {
        return rank_of(one) < rank;
      };
      const auto begin =
          std::lower_bound(all.begin(), all.end(), first, begins_before);
      to->insert(to->end(), begin,
                 std::lower_bound(begin, all.end(), end, begins_before));
    };
    using Transfer = OutlineRound::Transfer;
    using Work = OutlineRound::Work;
    copy(
        rounds_[round].transfers, [](const Transfer& t) { return t.from; },
        &into->transfers);
    copy(
        rounds_[round].work, [](const Work& w) { return w.rank; }, &into->work);
  }

  int64_t NumResults(int round, int rank) const override {
    const std::vector<int>& rounds = results_[rank];
    const auto [begin, end] =
        std::equal_range(rounds.begin(), rounds.end(), round);
    return end - begin;
  }

 private:
  const std::vector<OutlineRound> rounds_;
  const std::vector<std::vector<int>> results_;
};

void AddStep(int rank, const Step& step, OutlineRound* round) {
  if (step.kind == StepKind::kSend) {
    round->transfers.push_back(
        {rank, step.peer, step.left.num_chunks, /*messages=*/1});
    return;
  }
  if (step.kind == StepKind::kRecv || step.kind == StepKind::kWait) return;
  // Steps arrive rank by rank.
  if (round->work.empty() || round->work.back().rank != rank) {
    round->work.push_back({.rank = rank});
  }
  OutlineRound::Work& work = round->work.back();
  if (step.kind == StepKind::kReduce) {
    work.reduced_chunks +=
        (1 + static_cast<int64_t>(step.more.size())) * step.into.num_chunks;
  } else {
    work.copied_chunks += step.into.num_chunks;
  }
}

void JoinTransfers(OutlineRound* round) {
  std::vector<OutlineRound::Transfer>& all = round->transfers;
  std::sort(all.begin(), all.end());
  size_t joined = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (joined > 0 && all[joined - 1].from == all[i].from &&
        all[joined - 1].to == all[i].to) {
      all[joined - 1].chunks += all[i].chunks;
      all[joined - 1].messages += all[i].messages;
    } else {
      all[joined++] = all[i];
    }
  }
  all.resize(joined);
}

std::vector<OutlineRound> RoundsOf(const GroupPlan& plan,
                                   absl::Span<const int> depths) {
  const auto deepest = std::max_element(depths.begin(), depths.end());
  std::vector<OutlineRound> rounds(deepest == depths.end() ? 1 : *deepest + 1);
  for (int step = 0; step < plan.num_steps(); ++step) {
    AddStep(plan.rank_of(step), plan.step(step), &rounds[depths[step]]);
  }
  for (OutlineRound& round : rounds) JoinTransfers(&round);
  return rounds;
}

// Returns, by rank, the round of the last write to each output chunk.
std::vector<std::vector<int>> ResultsOf(const GroupPlan& plan,
                                        absl::Span<const int> depths) {
  std::vector<std::vector<int>> results(plan.num_ranks());
  int step = 0;
  for (int rank = 0; rank < plan.num_ranks(); ++rank) {
    absl::flat_hash_map<int, int> last;  // By chunk.
    for (; step < plan.num_steps() && plan.rank_of(step) == rank; ++step) {
      const Step& writer = plan.step(step);
      if (!Writes(writer.kind) || writer.into.space != Space::kData) continue;
      for (int i = 0; i < writer.into.num_chunks; ++i) {
        int& round = last[writer.into.chunk + i];
        round = std::max(round, depths[step]);
      }
    }
    for (const auto& [chunk, depth] : last) results[rank].push_back(depth);
    std::sort(results[rank].begin(), results[rank].end());
  }
  return results;
}

absl::StatusOr<int64_t> ScratchChunks(const std::vector<Schedule>& schedules,
                                      const GroupMemory& memory) {
  int64_t most = 0;
  for (size_t rank = 0; rank < schedules.size(); ++rank) {
    ASSIGN_OR_RETURN(const auto compiled,
                     CompiledSchedule::Compile(schedules[rank], memory,
                                               static_cast<int>(rank)));
    int64_t chunks = 0;
    for (const Slot& slot : compiled.scratch()) chunks += slot.num_chunks;
    most = std::max(most, chunks);
  }
  return most;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Outline>> PlannedOutline(
    const Algorithm& algorithm, const VerifyCase& request, int64_t max_steps) {
  ASSIGN_OR_RETURN(const auto schedules,
                   PlanAll(algorithm, request, max_steps));
  ASSIGN_OR_RETURN(const auto plan, JoinPlans(request, schedules));
  ASSIGN_OR_RETURN(const auto order, CompletionOrder(plan));
  ASSIGN_OR_RETURN(const auto scratch, ScratchChunks(schedules, plan.memory()));
  const std::vector<int> depths = StepDepths(plan, order);
  std::vector<OutlineRound> rounds = RoundsOf(plan, depths);
  Outline::Size size = {.num_ranks = plan.num_ranks(),
                        .num_chunks = plan.memory().num_chunks,
                        .num_rounds = static_cast<int>(rounds.size()),
                        .scratch_chunks = scratch,
                        .period = plan.num_ranks()};
  for (const OutlineRound& round : rounds) {
    size.most_transfers = std::max(
        size.most_transfers, static_cast<int64_t>(round.transfers.size()));
  }
  return std::make_unique<WrittenOutline>(size, std::move(rounds),
                                          ResultsOf(plan, depths));
}

absl::StatusOr<std::unique_ptr<const Outline>> OutlineOf(
    const Algorithm& algorithm, const VerifyCase& request, int64_t max_steps) {
  if (algorithm.outline == nullptr) {
    return PlannedOutline(algorithm, request, max_steps);
  }
  RETURN_IF_ERROR(CheckServes(algorithm, request));
  auto outline = algorithm.outline({.layout = request.layout,
                                    .type = request.type,
                                    .root = request.root,
                                    .permutation = request.permutation,
                                    .subdiv_offsets = request.subdiv_offsets,
                                    .rank_list = request.rank_list,
                                    .blocks_differ = request.blocks_differ});
  if (outline.ok()) return outline;
  auto planned = PlannedOutline(algorithm, request, max_steps);
  if (!absl::IsResourceExhausted(planned.status())) return planned;
  return absl::ResourceExhaustedError(
      absl::StrCat(planned.status().message(),
                   ", for there is no outline: ", outline.status().message()));
}

}  // namespace tutti
