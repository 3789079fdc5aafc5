#include "implementations/parts/halving_outline.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "implementations/parts/halving.h"

namespace tutti {
namespace {

// Outline of the way up and, for kUpAndDown, the way down again.
//
// On the way up, ranks of a shared corner first exchange their blocks. Corners
// whose sums come from a shared corner are therefore one round later than the
// dimension. On the way down, all ranks use a dimension at once.
class HalvingRounds : public Outline {
 public:
  enum class Ways { kUp, kUpAndDown };

  HalvingRounds(int num_ranks, Ways ways)
      : Outline(SizeOf(num_ranks, ways)), halving_(num_ranks), ways_(ways) {}

  void Append(int round, int first, int end,
              OutlineRound* into) const override {
    for (int rank = first; rank < end; ++rank) AppendOf(rank, round, into);
  }

  int64_t NumResults(int round, int rank) const override {
    if (round <= LastUp(halving_.cube())) {
      return round == LastUp(halving_.cube()) ? 1 : 0;
    }
    if (!GoesDown(rank, round)) return 0;
    int64_t received = 0;
    for (const int seat : halving_.SeatsOf(rank)) {
      received += halving_.SizesOf(rank, seat, DimensionDown(round)).num_sent;
    }
    return received;
  }

 private:
  static Size SizeOf(int num_ranks, Ways ways) {
    // Peers at each end of a dimension, or in a shared corner.
    constexpr int64_t kMostPeers = 2;
    const Halving halving(num_ranks);
    const bool is_both = ways == Ways::kUpAndDown;
    const int up = LastUp(halving.cube());
    return {.num_ranks = num_ranks,
            .num_chunks = num_ranks,
            .num_rounds = (is_both ? 2 * up : up) + 1,
            .scratch_chunks = is_both ? 0 : ScratchChunks(halving, num_ranks),
            .period = num_ranks,
            .most_transfers = kMostPeers * num_ranks};
  }

  // On the way up alone, only the own block's sum has a place in the output. A
  // rank makes sums of all blocks that it keeps in its first exchange.
  static int64_t ScratchChunks(const Halving& halving, int num_ranks) {
    int64_t most = 0;
    for (int rank = 0; rank < num_ranks && num_ranks > 1; ++rank) {
      int64_t sums = 0;
      for (const int seat : halving.SeatsOf(rank)) {
        const int dimension = halving.FirstDimension(rank);
        sums += halving.SizesOf(rank, seat, dimension).num_kept;
      }
      most = std::max(most, sums - 1);
    }
    return most;
  }

  // Returns the round in which the owners have their sums.
  static int LastUp(const RankCube& cube) {
    return cube.num_dimensions() + (cube.num_shared() > 0 ? 1 : 0);
  }

  // Returns the round in which sums cross a dimension at the rank's corner.
  int RoundUp(int rank, int dimension) const {
    const RankCube& cube = halving_.cube();
    const int first_below = cube.CornerOf(rank) >> (dimension + 1)
                                                       << (dimension + 1);
    return dimension + 1 + (first_below < cube.num_shared() ? 1 : 0);
  }

  int DimensionDown(int round) const {
    return LastUp(halving_.cube()) + halving_.cube().num_dimensions() - round;
  }
  bool GoesDown(int rank, int round) const {
    return round > LastUp(halving_.cube()) &&
           DimensionDown(round) >= halving_.FirstDimension(rank);
  }

  void AppendOf(int rank, int round, OutlineRound* into) const {
    const int num_dimensions = halving_.cube().num_dimensions();
    if (round == 0) {
      if (num_dimensions == 0) into->work.push_back({rank, 0, 1});
      return;
    }
    for (int dimension = std::max(halving_.FirstDimension(rank), round - 2);
         dimension < std::min(round, num_dimensions); ++dimension) {
      if (RoundUp(rank, dimension) != round) continue;
      AppendUp(rank, dimension, into);
    }
    if (ways_ == Ways::kUp || !GoesDown(rank, round)) return;
    for (const int seat : halving_.SeatsOf(rank)) {
      const auto sizes = halving_.SizesOf(rank, seat, DimensionDown(round));
      AppendTransfer(rank, sizes.peer, sizes.num_kept, into);
    }
  }

  void AppendUp(int rank, int dimension, OutlineRound* into) const {
    int64_t reduced = 0;
    for (const int seat : halving_.SeatsOf(rank)) {
      const auto sizes = halving_.SizesOf(rank, seat, dimension);
      AppendTransfer(rank, sizes.peer, sizes.num_sent, into);
      reduced += sizes.num_kept;
    }
    if (reduced > 0) into->work.push_back({rank, reduced, 0});
  }

  void AppendTransfer(int from, int to, int64_t blocks,
                      OutlineRound* into) const {
    if (blocks == 0) return;
    // On the way up alone, each block is a message.
    const int64_t messages = ways_ == Ways::kUp ? blocks : 1;
    auto& all = into->transfers;
    if (!all.empty() && all.back().from == from && all.back().to == to) {
      all.back().chunks += blocks;
      all.back().messages += messages;
    } else {
      all.push_back({from, to, blocks, messages});
    }
  }

  const Halving halving_;
  const Ways ways_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Outline>> HalvingOutline(
    const PlanRequest& request) {
  return std::make_unique<HalvingRounds>(request.layout.size(),
                                         HalvingRounds::Ways::kUp);
}

absl::StatusOr<std::unique_ptr<const Outline>> HalvingDoublingOutline(
    const PlanRequest& request) {
  return std::make_unique<HalvingRounds>(request.layout.size(),
                                         HalvingRounds::Ways::kUpAndDown);
}

}  // namespace tutti
