#include "implementations/parts/halving_outline.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "implementations/parts/halving_tree.h"
#include "implementations/parts/rank_cube.h"

namespace tutti {
namespace {

// Returns the number of blocks that a rank makes sums of: the blocks that it
// keeps in its first exchange.
int64_t NumSums(const HalvingTrees& trees, int rank) {
  const RankCube& cube = trees.cube();
  const int corner = cube.CornerOf(rank);
  if (cube.NumRanksAt(corner) == 2) {
    return trees.BlocksOf(0, 0, cube.SeatOf(rank)).count;
  }
  const int num_dimensions = std::min(1, cube.num_dimensions());
  return trees.BlocksOf(corner, num_dimensions, /*seat=*/0).count +
         trees.BlocksOf(corner, num_dimensions, /*seat=*/1).count;
}

// Outline of the way up and, for kUpAndDown, the way down again.
//
// Blocks with the same way through a dimension and the same seats are in the
// same round. Counts of them are enough.
//
// On the way up, ranks of a shared corner first exchange their blocks. Corners
// whose sums come from a shared corner are therefore one round later than the
// dimension. On the way down, all ranks use a dimension at once.
class Halving : public Outline {
 public:
  enum class Ways { kUp, kUpAndDown };

  Halving(int num_ranks, Ways ways)
      : Outline(SizeOf(num_ranks, ways)),
        trees_(num_ranks),
        cube_(trees_.cube()),
        delay_(cube_.num_shared() > 0 ? 1 : 0),
        ways_(ways) {}

  void Append(int round, int first, int end,
              OutlineRound* into) const override {
    for (int rank = first; rank < end; ++rank) AppendOf(rank, round, into);
  }

  int64_t NumResults(int round, int rank) const override {
    if (round == last_up()) return 1;
    if (round < last_up()) return 0;
    const int corner = cube_.CornerOf(rank);
    if (down(round) < 0) {
      return cube_.NumRanksAt(corner) == 2
                 ? NumBlocks(0, 0, 1 - cube_.SeatOf(rank))
                 : 0;
    }
    return NumReceived(rank, corner ^ (1 << down(round)), down(round) + 1);
  }

 private:
  static Size SizeOf(int num_ranks, Ways ways) {
    // Peers at each end of a dimension, or in a shared corner.
    constexpr int64_t kMostPeers = 2;
    const HalvingTrees trees(num_ranks);
    const RankCube& cube = trees.cube();
    const bool is_both = ways == Ways::kUpAndDown;
    const int up = cube.num_dimensions() + (cube.num_shared() > 0 ? 1 : 0);
    return {.num_ranks = num_ranks,
            .num_chunks = num_ranks,
            .num_rounds = (is_both ? 2 * up : up) + 1,
            .scratch_chunks = is_both ? 0 : ScratchChunks(trees, num_ranks),
            .period = num_ranks,
            .most_transfers = kMostPeers * num_ranks};
  }

  // On the way up alone, only the own block's sum has a place in the output.
  static int64_t ScratchChunks(const HalvingTrees& trees, int num_ranks) {
    int64_t most = 0;
    for (int rank = 0; rank < num_ranks; ++rank) {
      most = std::max(most, NumSums(trees, rank) - 1);
    }
    return most;
  }

  int64_t NumBlocks(int corner, int num_dimensions, int seat) const {
    return trees_.BlocksOf(corner, num_dimensions, seat).count;
  }

  // The blocks of the way up alone are in the order of their owners, and each
  // is a message.
  int64_t MessagesOf(int64_t blocks) const {
    return ways_ == Ways::kUp ? blocks : std::min<int64_t>(blocks, 1);
  }

  // Round in which the owners have their sums.
  int last_up() const { return cube_.num_dimensions() + delay_; }

  // Returns the dimension that a later round uses; -1: within shared corners.
  int down(int round) const {
    return 2 * cube_.num_dimensions() + delay_ - round;
  }

  void AppendOf(int rank, int round, OutlineRound* into) const {
    const int dimensions = cube_.num_dimensions();
    const int corner = cube_.CornerOf(rank);
    const bool is_shared = cube_.NumRanksAt(corner) == 2;
    if (round == 0) {
      if (dimensions == 0) into->work.push_back({rank, 0, 1});
      return;
    }
    if (round == 1 && is_shared) AddPartner(rank, /*up=*/true, into);
    for (int dimension : {round - 1, round - 2}) {
      if (dimension < 0 || dimension >= dimensions) continue;
      if (RoundUp(corner, dimension) != round) continue;
      AddDimension(rank, dimension, /*up=*/true, into);
    }
    if (ways_ == Ways::kUp || round <= last_up()) return;
    if (down(round) >= 0) {
      AddDimension(rank, down(round), /*up=*/false, into);
    } else if (is_shared) {
      AddPartner(rank, /*up=*/false, into);
    }
  }

  // Returns the round in which sums cross a dimension at that corner.
  int RoundUp(int corner, int dimension) const {
    const int first_below = corner >> (dimension + 1) << (dimension + 1);
    return dimension + 1 + (first_below < cube_.num_shared() ? 1 : 0);
  }

  // Returns the number of blocks that the rank receives across a dimension.
  // These are blocks of its seats whose owners are on corners equal to `corner`
  // up to the dimension. A rank alone on its corner has both seats.
  int64_t NumReceived(int rank, int corner, int num_dimensions) const {
    const bool is_shared = cube_.NumRanksAt(cube_.CornerOf(rank)) == 2;
    int64_t received = 0;
    for (int seat : {0, 1}) {
      if (is_shared && cube_.SeatOf(rank) != seat) continue;
      received += NumBlocks(corner, num_dimensions, seat);
    }
    return received;
  }

  // The partner takes the blocks of its seat.
  void AddPartner(int rank, bool up, OutlineRound* into) const {
    const int own = cube_.SeatOf(rank);
    const int64_t sent = NumBlocks(0, 0, up ? 1 - own : own);
    into->transfers.push_back(
        {rank, cube_.PartnerOf(rank), sent, MessagesOf(sent)});
    if (up) into->work.push_back({rank, NumBlocks(0, 0, own), 0});
  }

  void AddDimension(int rank, int dimension, bool up,
                    OutlineRound* into) const {
    const int corner = cube_.CornerOf(rank);
    const int across = corner ^ (1 << dimension);
    const bool is_shared = cube_.NumRanksAt(corner) == 2;
    for (int seat : {0, 1}) {
      if (is_shared && cube_.SeatOf(rank) != seat) continue;
      const int64_t sent = NumBlocks(up ? across : corner, dimension + 1, seat);
      AddTransfer({rank, cube_.RankAt(across, seat), sent, MessagesOf(sent)},
                  into);
    }
    if (!up) return;
    const int64_t received = NumReceived(rank, corner, dimension + 1);
    if (received > 0) into->work.push_back({rank, received, 0});
  }

  static void AddTransfer(const OutlineRound::Transfer& transfer,
                          OutlineRound* into) {
    if (transfer.chunks == 0) return;
    auto& all = into->transfers;
    if (!all.empty() && all.back().from == transfer.from &&
        all.back().to == transfer.to) {
      all.back().chunks += transfer.chunks;
      all.back().messages += transfer.messages;
    } else {
      all.push_back(transfer);
    }
  }

  const HalvingTrees trees_;
  const RankCube& cube_;
  const int delay_;
  const Ways ways_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Outline>> HalvingOutline(
    const PlanRequest& request) {
  return std::make_unique<Halving>(request.layout.size(), Halving::Ways::kUp);
}

absl::StatusOr<std::unique_ptr<const Outline>> HalvingDoublingOutline(
    const PlanRequest& request) {
  return std::make_unique<Halving>(request.layout.size(),
                                   Halving::Ways::kUpAndDown);
}

}  // namespace tutti
