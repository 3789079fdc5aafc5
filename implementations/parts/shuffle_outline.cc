#include "implementations/parts/shuffle_outline.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "implementations/parts/binomial_tree.h"

namespace tutti {
namespace {

class Shuffle : public Outline {
 public:
  Shuffle(int num_ranks, const ShuffleStages& stages)
      : Outline(SizeOf(num_ranks, stages)), stages_(stages) {}

  void Append(int round, int first, int end,
              OutlineRound* into) const override {
    for (int rank = first; rank < end; ++rank) {
      if (round == 0) {
        AppendCopy(rank, into);
      } else if (round == result_round()) {
        AppendToAll(rank, into);
      } else {
        const int stride = StrideIn(round);
        into->transfers.push_back(
            {rank, (rank + size().num_ranks - stride) % size().num_ranks,
             NumGathered(stride)});
      }
    }
  }

  int64_t NumResults(int round, int /*rank*/) const override {
    if (round <= result_round()) return round == result_round() ? 1 : 0;
    return NumGathered(StrideIn(round));
  }

 private:
  static Size SizeOf(int num_ranks, const ShuffleStages& stages) {
    const int num_others = num_ranks - 1;
    const int64_t most_peers = stages.scatters ? num_others : 1;
    const int to_owners = stages.scatters ? std::min(1, num_others) : 0;
    return {.num_ranks = num_ranks,
            .num_chunks = num_ranks,
            .num_rounds =
                1 + to_owners + (stages.gathers ? CeilLog2(num_ranks) : 0),
            // With two ranks, the other rank's block is reduced as it arrives.
            .scratch_chunks = stages.scatters && num_ranks > 2 ? num_others : 0,
            .period = 1,
            .most_transfers = most_peers * num_ranks};
  }

  // Round in which each rank has its own block.
  int result_round() const {
    return stages_.scatters && size().num_ranks > 1 ? 1 : 0;
  }

  // Returns the distance that blocks travel in a round of the gather.
  int StrideIn(int round) const { return 1 << (round - result_round() - 1); }

  // In the last round, all ranks have some of the blocks already.
  int64_t NumGathered(int stride) const {
    return std::min(stride, size().num_ranks - stride);
  }

  void AppendCopy(int rank, OutlineRound* into) const {
    if (result_round() > 0) return;
    into->work.push_back({.rank = rank, .copied_chunks = 1});
  }

  void AppendToAll(int rank, OutlineRound* into) const {
    for (int to = 0; to < size().num_ranks; ++to) {
      if (to != rank) into->transfers.push_back({rank, to, /*chunks=*/1});
    }
    into->work.push_back(
        {.rank = rank, .reduced_chunks = size().num_ranks - 1});
  }

  const ShuffleStages stages_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Outline>> ShuffleOutline(
    const PlanRequest& request, const ShuffleStages& stages) {
  if (!request.rank_list.empty()) {
    return absl::UnimplementedError("owners are listed");
  }
  return std::make_unique<Shuffle>(request.layout.size(), stages);
}

}  // namespace tutti
