#include "schedule/proof/verifier.h"

#include <algorithm>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status_macros.h"
#include "schedule/group_memory.h"
#include "schedule/proof/output_check.h"
#include "schedule/proof/races.h"
#include "schedule/step_order.h"

namespace tutti {
namespace {

bool IsPermutation(const std::vector<int>& permutation, int size) {
  std::vector<int> sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<int>(i)) return false;
  }
  return sorted.size() == static_cast<size_t>(size);
}

bool IsRankList(const std::vector<int>& list, RankListUse use, int size) {
  if (use != RankListUse::kOwners) {
    return use == RankListUse::kAllRanks && IsPermutation(list, size);
  }
  std::vector<int> sorted = list;
  std::sort(sorted.begin(), sorted.end());
  return sorted.front() >= 0 && sorted.back() < size &&
         std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}

// Returns "offsets 0,-1", or "64 subdivisions, offsets 0" if all are equal.
std::string SubdivisionsText(const std::vector<int>& offsets) {
  const bool differ =
      std::adjacent_find(offsets.begin(), offsets.end(),
                         std::not_equal_to<>()) != offsets.end();
  if (differ || offsets.size() == 1) {
    return absl::StrCat("offsets ", absl::StrJoin(offsets, ","));
  }
  return absl::StrCat(offsets.size(), " subdivisions, offsets ",
                      offsets.front());
}

Schedule Plan(const Algorithm& algorithm, const VerifyCase& request, int rank,
              bool in_place) {
  return algorithm.plan({.layout = request.layout,
                         .type = request.type,
                         .rank = rank,
                         .root = request.root,
                         .permutation = request.permutation,
                         .subdiv_offsets = request.subdiv_offsets,
                         .rank_list = request.rank_list,
                         .blocks_differ = request.blocks_differ,
                         .in_place = in_place});
}

using Transfer = std::tuple<StepKind, int, int, int, int>;

// Returns the transfers of a rank: kind, peer, tag and chunks, sorted.
std::vector<Transfer> TransfersOf(const Schedule& schedule) {
  std::vector<Transfer> transfers;
  for (const Lane& lane : schedule.lanes) {
    for (const Step& step : lane) {
      if (!IsTransfer(step)) continue;
      const bool sends = step.kind == StepKind::kSend;
      const Slot& slot = sends ? step.left : step.into;
      transfers.emplace_back(step.kind, step.peer, step.tag, slot.chunk,
                             slot.num_chunks);
    }
  }
  std::sort(transfers.begin(), transfers.end());
  return transfers;
}

absl::Status CheckInPlaceSendsTheSame(const Algorithm& algorithm,
                                      const VerifyCase& request) {
  for (int rank = 0; rank < request.layout.size(); ++rank) {
    const auto transfers = [&](bool in_place) {
      return TransfersOf(Plan(algorithm, request, rank, in_place));
    };
    if (transfers(/*in_place=*/false) != transfers(/*in_place=*/true)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", rank, " sends or receives differently in place"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBarrier(const GroupPlan& plan, StepOrder& order) {
  for (int rank = 0; rank < plan.num_ranks(); ++rank) {
    const int missing = order.RankNotAwaitedBy(rank);
    if (missing == -1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the barrier does not hold: rank ", rank,
                     " can leave before rank ", missing, " has come"));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsInPlace(InPlace in_place, int rank) {
  return in_place == InPlace::kAll ||
         (in_place == InPlace::kEvenRanks && rank % 2 == 0) ||
         (in_place == InPlace::kOddRanks && rank % 2 != 0);
}

absl::string_view Words(InPlace in_place) {
  switch (in_place) {
    case InPlace::kNone:
      return "";
    case InPlace::kAll:
      return ", in place";
    case InPlace::kEvenRanks:
      return ", in place on even ranks";
    case InPlace::kOddRanks:
      return ", in place on odd ranks";
  }
  return "";
}

std::string ToString(const VerifyCase& request) {
  std::string text =
      absl::StrCat(Name(request.type), " on ", request.layout.ToString());
  if (HasRoot(request.type)) absl::StrAppend(&text, ", root ", request.root);
  if (!request.permutation.empty()) {
    absl::StrAppend(&text, ", permutation ",
                    absl::StrJoin(request.permutation, ","));
  }
  if (!request.subdiv_offsets.empty()) {
    absl::StrAppend(&text, ", ", SubdivisionsText(request.subdiv_offsets));
  }
  if (!request.rank_list.empty()) {
    absl::StrAppend(&text, ", ranks ", absl::StrJoin(request.rank_list, ","));
  }
  if (request.blocks_differ) absl::StrAppend(&text, ", blocks differ");
  return absl::StrCat(text, Words(request.in_place));
}

absl::Status CheckServes(const Algorithm& algorithm,
                         const VerifyCase& request) {
  const auto wrong = [&request](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot plan ", ToString(request), ": ", why));
  };
  const ImplementationTraits& traits = algorithm.traits;
  const int size = request.layout.size();
  if (algorithm.plan == nullptr) return wrong("no plan function");
  if (std::find(traits.collectives.begin(), traits.collectives.end(),
                request.type) == traits.collectives.end()) {
    return wrong("the algorithm does not serve this collective");
  }
  if (HasRoot(request.type) && (request.root < 0 || request.root >= size)) {
    return wrong("no such root");
  }
  if (request.type == CollectiveType::kPermute &&
      !IsPermutation(request.permutation, size)) {
    return wrong("not a permutation of the ranks");
  }
  if (traits.supports_subdivisions == request.subdiv_offsets.empty()) {
    return wrong("offsets are for algorithms that support subdivisions");
  }
  if (!request.rank_list.empty() &&
      !IsRankList(request.rank_list, traits.rank_list, size)) {
    return wrong("not a list of ranks that the algorithm takes");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Schedule>> PlanAll(const Algorithm& algorithm,
                                              const VerifyCase& request,
                                              int64_t max_steps) {
  RETURN_IF_ERROR(CheckServes(algorithm, request));
  std::vector<Schedule> schedules;
  int64_t num_steps = 0;
  for (int rank = 0; rank < request.layout.size(); ++rank) {
    schedules.push_back(
        Plan(algorithm, request, rank, IsInPlace(request.in_place, rank)));
    for (const Lane& lane : schedules.back().lanes) {
      num_steps += static_cast<int64_t>(lane.size());
    }
    if (num_steps > max_steps) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot plan ", ToString(request), ": ranks 0 to ", rank,
                       " of ", request.layout.size(), " have ", num_steps,
                       " steps; wanted are at most ", max_steps, " in all"));
    }
  }
  return schedules;
}

absl::StatusOr<GroupPlan> JoinPlans(const VerifyCase& request,
                                    const std::vector<Schedule>& schedules) {
  GroupMemory memory = {.type = request.type,
                        .num_ranks = request.layout.size(),
                        .root = request.root,
                        .num_chunks = schedules.front().num_chunks,
                        .uneven = request.blocks_differ};
  for (int rank = 0; rank < memory.num_ranks; ++rank) {
    memory.in_place.push_back(IsInPlace(request.in_place, rank));
  }
  return GroupPlan::Create(std::move(memory), schedules);
}

absl::StatusOr<GroupPlan> PlanGroup(const Algorithm& algorithm,
                                    const VerifyCase& request) {
  ASSIGN_OR_RETURN(const auto schedules, PlanAll(algorithm, request));
  return JoinPlans(request, schedules);
}

absl::StatusOr<SymbolicRun> Symbolically(const Algorithm& algorithm,
                                         const VerifyCase& request) {
  ASSIGN_OR_RETURN(const auto plan, PlanGroup(algorithm, request));
  return RunSymbolically(plan);
}

absl::Status Verify(const Algorithm& algorithm, const VerifyCase& request) {
  ASSIGN_OR_RETURN(const auto plan, PlanGroup(algorithm, request));
  if (request.in_place == InPlace::kEvenRanks) {
    RETURN_IF_ERROR(CheckInPlaceSendsTheSame(algorithm, request));
  }
  ASSIGN_OR_RETURN(const auto run, RunSymbolically(plan));
  StepOrder order(plan, run.completion_order);
  RETURN_IF_ERROR(CheckRaces(plan, order));
  if (request.type == CollectiveType::kBarrier) {
    return CheckBarrier(plan, order);
  }
  return CheckOutputs(plan.memory(), request.permutation,
                      algorithm.traits.preserves_rank_order, run);
}

}  // namespace tutti
