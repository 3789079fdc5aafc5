#include "schedule/simulate/outline_testing.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/status_macros.h"
#include "schedule/simulate/planned_outline.h"
#include "schedule/simulate/ring_sample.h"

namespace tutti {
namespace {

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
  if (size.most_transfers > 0 &&
      static_cast<int64_t>(all.transfers.size()) > size.most_transfers) {
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
