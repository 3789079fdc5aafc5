#include "schedule/proof/races.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

struct Access {
  Slot slot;
  int completion_index;
  bool writes;
  int step;

  friend bool operator<(const Access& a, const Access& b) {
    const auto key = [](const Access& access) {
      return std::make_tuple(access.slot.space, access.slot.chunk,
                             access.slot.bank, access.completion_index,
                             access.writes);
    };
    return key(a) < key(b);
  }
};

// Returns the accesses of the steps [first, end).
std::vector<Access> SortedAccesses(const GroupPlan& plan,
                                   const StepOrder& order, int first, int end) {
  std::vector<Access> accesses;
  for (int step = first; step < end; ++step) {
    const StepAccesses slots = plan.AccessesOf(step);
    const int index = order.completion_index(step);
    for (const Slot& read : slots.reads) {
      accesses.push_back({read, index, /*writes=*/false, step});
    }
    for (const Slot& written : slots.writes) {
      accesses.push_back({written, index, /*writes=*/true, step});
    }
  }
  std::sort(accesses.begin(), accesses.end());
  return accesses;
}

absl::Status Race(const GroupPlan& plan, const Access& first,
                  const Access& second) {
  const Access& writer = second.writes ? second : first;
  const Access& other = second.writes ? first : second;
  const bool lends = plan.step(other.step).kind == StepKind::kSend;
  return absl::InvalidArgumentError(absl::StrCat(
      "race: ", plan.Describe(writer.step), " may write ",
      ToString(writer.slot), " while ", plan.Describe(other.step),
      lends ? " lends it" : (other.writes ? " writes it" : " reads it")));
}

// Checks `accesses`: all accesses of one slot, in completion order. Earlier
// accesses are ordered among themselves. A read must follow the last write. A
// write must follow the reads since the last write or, without such reads, the
// last write.
absl::Status CheckSlot(const GroupPlan& plan, StepOrder& order,
                       absl::Span<const Access> accesses) {
  const int rank = plan.rank_of(accesses[0].step);
  const int64_t size_class = plan.memory().SizeClass(rank, accesses[0].slot);
  const auto check = [&](const Access& first, const Access& second) {
    const bool ordered = first.step == second.step ||
                         order.IsBefore(first.step, second.step, size_class);
    return ordered ? absl::OkStatus() : Race(plan, first, second);
  };
  int last_write = -1;
  for (int i = 0; i < static_cast<int>(accesses.size()); ++i) {
    const bool follows_reads = accesses[i].writes && last_write + 1 < i;
    const int begin = follows_reads ? last_write + 1 : std::max(last_write, 0);
    const int end = accesses[i].writes ? i : last_write + 1;
    for (int earlier = begin; earlier < end; ++earlier) {
      RETURN_IF_ERROR(check(accesses[earlier], accesses[i]));
    }
    if (accesses[i].writes) last_write = i;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRaces(const GroupPlan& plan, StepOrder& order) {
  int step = 0;
  for (int rank = 0; rank < plan.num_ranks(); ++rank) {
    const int first = step;
    while (step < plan.num_steps() && plan.rank_of(step) == rank) ++step;
    const std::vector<Access> accesses =
        SortedAccesses(plan, order, first, step);
    for (size_t begin = 0, end = 0; begin < accesses.size(); begin = end) {
      while (end < accesses.size() &&
             accesses[end].slot == accesses[begin].slot) {
        ++end;
      }
      const auto of_one_slot =
          absl::MakeConstSpan(accesses).subspan(begin, end - begin);
      RETURN_IF_ERROR(CheckSlot(plan, order, of_one_slot));
    }
  }
  return absl::OkStatus();
}

}  // namespace tutti
