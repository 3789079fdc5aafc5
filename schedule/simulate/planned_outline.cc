#include "schedule/simulate/planned_outline.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/status_macros.h"
#include "schedule/compiled_schedule.h"
#include "schedule/group_plan.h"
#include "schedule/proof/symbolic.h"
#include "schedule/simulate/ring_sample.h"
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

// Returns the number of ranks that send or work.
int BusyRanks(const OutlineRound& round) {
  std::vector<int> busy;
  for (const OutlineRound::Transfer& transfer : round.transfers) {
    busy.push_back(transfer.from);
  }
  for (const OutlineRound::Work& work : round.work) busy.push_back(work.rank);
  std::sort(busy.begin(), busy.end());
  return static_cast<int>(std::unique(busy.begin(), busy.end()) - busy.begin());
}

int NumTransfers(const OutlineRound& round) {
  return static_cast<int>(round.transfers.size());
}

// Returns the maximum of `count` over all rounds.
int MostOf(const std::vector<OutlineRound>& rounds,
           int (*count)(const OutlineRound& round)) {
  int most = 0;
  for (const OutlineRound& round : rounds) most = std::max(most, count(round));
  return most;
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

absl::Status Wrong(const VerifyCase& request, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the outline of ", ToString(request), what));
}

OutlineRound AllOf(const Outline& outline, int round, int first, int end) {
  OutlineRound all;
  outline.Append(round, first, end, &all);
  return all;
}

// Returns the round with all ranks moved by `period`.
OutlineRound Shifted(OutlineRound round, const Outline::Size& size) {
  const auto shift = [&size](int32_t* rank) {
    *rank = (*rank + size.period) % size.num_ranks;
  };
  for (OutlineRound::Transfer& transfer : round.transfers) {
    shift(&transfer.from);
    shift(&transfer.to);
  }
  for (OutlineRound::Work& work : round.work) shift(&work.rank);
  std::sort(round.transfers.begin(), round.transfers.end());
  return round;
}

bool IsRingAsItSays(const Outline& outline, int round,
                    const OutlineRound& all) {
  const Outline::Size& size = outline.size();
  if (!size.is_ring) return true;
  const int first = std::min(1, size.num_rounds - 1);
  return IsRoundOfRing(round, all, AllOf(outline, first, 0, size.num_ranks),
                       size.num_ranks);
}

absl::Status CheckRound(const Outline& outline, const Outline& planned,
                        int round, const VerifyCase& request) {
  const Outline::Size& size = outline.size();
  const OutlineRound all = AllOf(outline, round, 0, size.num_ranks);
  const OutlineRound want = AllOf(planned, round, 0, size.num_ranks);
  if (all.transfers != want.transfers || all.work != want.work) {
    return Wrong(request, absl::StrCat(" differs in round ", round));
  }
  if (!IsRingAsItSays(outline, round, all)) {
    return Wrong(request, absl::StrCat(" is no ring in round ", round));
  }
  if (size.busy_ranks > 0 && BusyRanks(all) > size.busy_ranks) {
    return Wrong(request, absl::StrCat(" has more than ", size.busy_ranks,
                                       " busy ranks in round ", round));
  }
  if (size.most_transfers > 0 && NumTransfers(all) > size.most_transfers) {
    return Wrong(request, absl::StrCat(" has more than ", size.most_transfers,
                                       " transfers in round ", round));
  }
  for (int rank = 0; rank < size.num_ranks; ++rank) {
    const int other = (rank + size.period) % size.num_ranks;
    const OutlineRound own =
        Shifted(AllOf(outline, round, rank, rank + 1), size);
    const OutlineRound next = AllOf(outline, round, other, other + 1);
    if (own.transfers != next.transfers || own.work != next.work) {
      return Wrong(request,
                   absl::StrCat(" has no period of ", size.period, " at rank ",
                                rank, " in round ", round));
    }
    if (outline.NumResults(round, rank) == planned.NumResults(round, rank)) {
      continue;
    }
    return Wrong(request, absl::StrCat(" has other results of rank ", rank,
                                       " in round ", round));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Outline>> PlannedOutline(
    const Algorithm& algorithm, const VerifyCase& request, int64_t max_steps) {
  ASSIGN_OR_RETURN(const auto schedules,
                   PlanAll(algorithm, request, max_steps));
  ASSIGN_OR_RETURN(const auto plan, JoinPlans(algorithm, request, schedules));
  ASSIGN_OR_RETURN(const auto order, CompletionOrder(plan));
  ASSIGN_OR_RETURN(const auto scratch, ScratchChunks(schedules, plan.memory()));
  const std::vector<int> depths = StepDepths(plan, order);
  std::vector<OutlineRound> rounds = RoundsOf(plan, depths);
  const Outline::Size size = {.num_ranks = plan.num_ranks(),
                              .num_chunks = plan.memory().num_chunks,
                              .num_rounds = static_cast<int>(rounds.size()),
                              .scratch_chunks = scratch,
                              .period = plan.num_ranks(),
                              .busy_ranks = MostOf(rounds, BusyRanks),
                              .most_transfers = MostOf(rounds, NumTransfers)};
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

absl::Status CheckOutline(const Algorithm& algorithm,
                          const VerifyCase& request) {
  constexpr int64_t kAnySteps = std::numeric_limits<int64_t>::max();
  ASSIGN_OR_RETURN(const auto outline,
                   OutlineOf(algorithm, request, kAnySteps));
  ASSIGN_OR_RETURN(const auto planned,
                   PlannedOutline(algorithm, request, kAnySteps));
  const Outline::Size& size = outline->size();
  Outline::Size want = planned->size();
  want.period = size.period;
  want.is_ring = size.is_ring;
  want.busy_ranks = size.busy_ranks;
  want.most_transfers = size.most_transfers;
  if (!(size == want)) return Wrong(request, " is of another size");
  if (size.period < 1 || size.num_ranks % size.period != 0) {
    return Wrong(request, absl::StrCat(" has a period of ", size.period));
  }
  for (int round = 0; round < size.num_rounds; ++round) {
    RETURN_IF_ERROR(CheckRound(*outline, *planned, round, request));
  }
  return absl::OkStatus();
}

}  // namespace tutti
