#include "implementations/parts/ring_outline.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "implementations/parts/subdivision.h"
#include "tutti/params.h"

namespace tutti {
namespace {

using Transfer = OutlineRound::Transfer;

// Transfers of every rank in a round, rank after rank, each pair once.
using Sends = std::vector<std::vector<Transfer>>;

Sends SendsOf(const PlanRequest& request) {
  Sends sends(request.layout.size());
  for (int offset : request.subdiv_offsets) {
    const std::vector<int> order =
        RingOrder(request.layout, offset, request.rank_list);
    for (size_t i = 0; i < order.size(); ++i) {
      const int to = order[(i + 1) % order.size()];
      std::vector<Transfer>& own = sends[order[i]];
      const auto same =
          std::find_if(own.begin(), own.end(),
                       [to](const Transfer& t) { return t.to == to; });
      if (same == own.end()) {
        own.push_back({order[i], to, /*chunks=*/1});
      } else {
        ++same->chunks;
        ++same->messages;
      }
    }
  }
  for (auto& own : sends) std::sort(own.begin(), own.end());
  return sends;
}

int PeriodOf(const PlanRequest& request) {
  const GroupLayout& layout = request.layout;
  if (!request.rank_list.empty()) return layout.size();
  if (layout.num_tasks() == 1) return 1;
  const int devices = layout.size() / layout.num_tasks();
  const bool is_uniform =
      layout == GroupLayout::Uniform(layout.num_tasks(), devices);
  return is_uniform ? devices : layout.size();
}

Outline::Size SizeOf(const PlanRequest& request, const RingRounds& rounds,
                     const Sends& sends) {
  const int num_ranks = request.layout.size();
  const auto num_rings = static_cast<int>(request.subdiv_offsets.size());
  const int partials = std::clamp(num_ranks - 2, 0, rounds.max_partials);
  size_t num_transfers = 0;
  for (const std::vector<Transfer>& own : sends) num_transfers += own.size();
  return {.num_ranks = num_ranks,
          .num_chunks = num_ranks * num_rings,
          .num_rounds = rounds.times_around * (num_ranks - 1) + 1,
          .scratch_chunks = int64_t{partials} * num_rings,
          .period = PeriodOf(request),
          .is_ring = num_transfers == sends.size(),
          .most_transfers = static_cast<int64_t>(num_transfers)};
}

class Rings : public Outline {
 public:
  Rings(const Size& size, const RingRounds& rounds, Sends sends)
      : Outline(size),
        rounds_(rounds),
        num_rings_(size.num_chunks / size.num_ranks),
        sends_(std::move(sends)) {}

  void Append(int round, int first, int end,
              OutlineRound* into) const override {
    const bool alone = size().num_ranks == 1;
    for (int rank = first; rank < end; ++rank) {
      if (round == 0 && (alone || rounds_.copies_own)) {
        into->work.push_back({.rank = rank, .copied_chunks = num_rings_});
      }
      if (round == 0) continue;
      into->transfers.insert(into->transfers.end(), sends_[rank].begin(),
                             sends_[rank].end());
      if (round > last_sum()) continue;
      into->work.push_back({.rank = rank, .reduced_chunks = num_rings_});
    }
  }

  // The own block's sum is the last sum; other blocks follow one per round.
  int64_t NumResults(int round, int /*rank*/) const override {
    return round < last_sum() ? 0 : num_rings_;
  }

 private:
  int last_sum() const {
    return rounds_.times_reduced * (size().num_ranks - 1);
  }

  const RingRounds rounds_;
  const int num_rings_;
  const Sends sends_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Outline>> RingOutline(
    const PlanRequest& request, const RingRounds& rounds) {
  Sends sends = SendsOf(request);
  const Outline::Size size = SizeOf(request, rounds, sends);
  return std::make_unique<Rings>(size, rounds, std::move(sends));
}

}  // namespace tutti
